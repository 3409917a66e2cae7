// Two halves of an MPI job, each a world of its own; many worlds one after another; none after MPI's end.
#include <distbelief/comm/mpi/world.h>
#include <distbelief/distbelief.h>
#include <torch/torch.h>

#include <cstdio>

int main(int argc, char** argv) {
  int provided = 0, rank = 0, size = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm half;
  const int color = rank < size / 2 ? 0 : 1;
  MPI_Comm_split(MPI_COMM_WORLD, color, rank, &half);
  {
    distbelief::World world =
        distbelief::world_from(half, {.stuck_start = distbelief::World::StuckStart::kWaits});
    torch::manual_seed(color);
    torch::nn::Sequential net(torch::nn::Linear(8, 1));
    distbelief::DataParallel parallel(world, net.ptr(), {.optimizer = {.name = "sgd", .lr = 0.05}});
    for (int step = 0; step < 5; ++step) {
      parallel.backward(net->forward(torch::full({2, 8}, double(rank))).square().mean());
      parallel.step();
    }
    std::printf("half %d: worker %d of %d, weights %s\n", color, world.rank(), world.size(),
                distbelief::run::weights_sha256(*net).c_str());
    world.close();
  }
  // Without giving its communicators back MPI would be out of them long before.
  for (int i = 0; i < 10000; ++i) distbelief::world_from(MPI_COMM_SELF).close();
  MPI_Comm_free(&half);
  MPI_Finalize();
  try {
    distbelief::World::create();
  } catch (const distbelief::Error& error) {
    if (error.code() == distbelief::ErrorCode::kBadInput)
      std::printf("refused: %s\n", error.message().c_str());
  }
}
