// Keeps its own MPI, communicator and torch::optim; only gradients and samples are shared.
#include <distbelief/comm/mpi/world.h>
#include <distbelief/distbelief.h>
#include <torch/torch.h>

#include <cstdio>

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  distbelief::World world = distbelief::world_from(comm);
  torch::manual_seed(world.rank());  // rank 0's weights are everyone's
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Linear(16, 1));
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  distbelief::GradientAverager averager(world, net.ptr());
  distbelief::EpochSampler sampler(world, 1001, 32, 1);
  for (int epoch = 0; epoch < 4; ++epoch) {
    sampler.reset();
    double total = 0, samples = 0;
    for (std::size_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      const std::vector<std::size_t> indices = *sampler.next(32);
      const auto x = torch::sin(
          torch::tensor(std::vector<double>(indices.begin(), indices.end())).to(torch::kFloat).unsqueeze(1) *
          torch::arange(1, 9));
      optimizer.zero_grad();
      const auto loss = torch::mse_loss(net->forward(x), x.sum(1, /*keepdim=*/true));
      averager.backward(loss, sampler.share(step));
      optimizer.step();
      total += loss.item<double>() * double(indices.size());
      samples += double(indices.size());
    }
    std::printf("epoch %d rank %d samples %.0f loss %.6f weights %s\n", epoch, world.rank(), samples,
                total / samples, distbelief::run::weights_sha256(*net).c_str());
  }
  world.close();
  MPI_Comm_free(&comm);
  MPI_Finalize();
}
