// A network of one's own in a pipeline: each worker holds and computes some of its layers.
//
//   ./pipeline_loop                      alone
//   mpirun -n 2 ./pipeline_loop          two stages
//   mpirun -n 4 ./pipeline_loop 2        two replicas of two stages
//
// Expected output, the same for any number of workers (the lanes are the same):
//   step 20 of 60, loss 0.7...
//   step 60 of 60, loss 0.1...
//   saved pipeline_loop.safetensors, weights f08d...
#include <distbelief/distbelief.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

// Four noisy patterns to tell apart: stands for your data.
std::pair<torch::Tensor, torch::Tensor> samples(int64_t first, int64_t count) {
  const torch::Tensor index = torch::arange(first, first + count);
  const torch::Tensor label = index.remainder(4);
  const torch::Tensor place = torch::arange(64).unsqueeze(0);
  const torch::Tensor pattern = torch::sin(place * (label + 1).unsqueeze(1) * 0.1);
  return {pattern + 0.3 * torch::cos(place * index.unsqueeze(1)), label};
}

int main(int argc, char** argv) {
  distbelief::World world = distbelief::World::create();
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(64, 96), torch::nn::BatchNorm1d(96), torch::nn::ReLU(),
                            torch::nn::Linear(96, 64), torch::nn::ReLU(), torch::nn::Linear(64, 4));
  distbelief::PipelineParallel parallel(world, net,
                                        [](const torch::Tensor& output, const torch::Tensor& target) {
                                          return torch::nn::functional::cross_entropy(output, target);
                                        },
                                        {.pipeline = argc > 1 ? std::atoi(argv[1]) : 0,
                                         .lanes = 8,
                                         .optimizer = {.name = "sgd", .lr = 0.01, .momentum = 0.5}});

  constexpr int64_t kBatch = 64;  // of all replicas together
  for (int64_t step = 0; step < 60; ++step) {
    const int64_t share = kBatch / parallel.replicas();
    const auto [input, target] = samples(step * kBatch + parallel.replica() * share, share);
    const double loss = parallel.step(input, target);
    if (world.rank() == 0 && step % 20 == 19) std::printf("step %d of 60, loss %.4f\n", int(step) + 1, loss);
  }
  const std::string weights = parallel.save_model("pipeline_loop.safetensors");
  if (world.rank() == 0) std::printf("saved pipeline_loop.safetensors, weights %s\n", weights.c_str());
  world.close();
}
