// Loops of one's own on several hosts that use the world's communicator between backward and step, where the
// exchange of gradients may still be under way; and several of them on one world. Prints a line for each
// algorithm between hosts.
#include <distbelief/comm/mpi/world.h>
#include <distbelief/distbelief.h>
#include <torch/torch.h>

#include <cstdio>
#include <stdexcept>

namespace {

using distbelief::comm::Algorithm;

std::string train(distbelief::World& world, bool averages) {
  torch::set_num_threads(1);
  torch::manual_seed(1);
  // More than one bucket.
  torch::nn::Sequential net(torch::nn::Linear(64, 1024), torch::nn::Tanh(), torch::nn::Linear(1024, 1024),
                            torch::nn::Tanh(), torch::nn::Linear(1024, 64));
  distbelief::DataParallel parallel(
      world, net.ptr(),
      {.optimizer = {.name = "sgd", .lr = 0.05}, .overlap = distbelief::strategy::Overlap::kUpdate});
  for (int step = 0; step < 8; ++step) {
    const auto x = torch::sin(torch::arange(4 * 64).view({4, 64}) * double(1 + step + world.rank()));
    parallel.backward(torch::mse_loss(net->forward(x), x));
    double sum = world.rank() + 1;
    if (averages) {
      world.communicator().allreduce(distbelief::comm::view(&sum, 1), distbelief::comm::ReduceOp::kSum);
      if (sum != world.size() * (world.size() + 1) / 2) throw std::runtime_error("the sum is another's");
    }
    parallel.step();
  }
  return distbelief::train::weights_sha256(*net);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect, Algorithm::kCentral}) {
    distbelief::World world = distbelief::world_from(
        MPI_COMM_WORLD, {.algorithm = algorithm, .deadline = std::chrono::seconds(15)});
    try {
      const std::string apart = train(world, false), mixed = train(world, true);
      if (apart != mixed) throw std::runtime_error("the weights are others");
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: worker %d: %s\n", to_string(algorithm).data(), world.rank(), error.what());
      world.abort_job(1);
    }
    world.close();
    if (world.rank() == 0) std::printf("%s on %d hosts: fine\n", to_string(algorithm).data(), world.hosts());
  }
  MPI_Finalize();
}
