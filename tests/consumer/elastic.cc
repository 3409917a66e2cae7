// Goes on from its folder: arguments are the folder and how many epochs there are to be.
#include <distbelief/distbelief.h>
#include <distbelief/elastic/tracked.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

int main(int, char** argv) {
  distbelief::World world = distbelief::World::create();
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::Dropout(0.1), torch::nn::Linear(16, 1));
  distbelief::DataParallel parallel(world, net.ptr(), {.optimizer = {.name = "adamw", .lr = 1e-3}});
  distbelief::EpochSampler sampler(world, 128, 16, 1);
  distbelief::elastic::Tracked run(world, *net, parallel, sampler,
                                   {.folder = argv[1], .checkpoint_every = std::chrono::milliseconds(0)});
  const auto first = run.step();
  while (run.epoch() < std::atoi(argv[2])) {
    sampler.reset();
    while (const auto indices = sampler.next(0)) {
      const std::vector<double> numbers(indices->begin(), indices->end());
      const auto x = torch::sin(torch::tensor(numbers).to(torch::kFloat).unsqueeze(1) * torch::arange(1, 9));
      parallel.backward(torch::mse_loss(net->forward(x), x.sum(1, /*keepdim=*/true)), run.share());
      parallel.step();
      if (!run.commit()) return run.leave();
    }
  }
  std::printf("steps %ld to %ld, weights %s\n", long(first), long(run.step()),
              distbelief::run::weights_sha256(*net).c_str());
  return run.leave();
}
