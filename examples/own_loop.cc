// A libtorch training loop of one's own on many processes. Lines marked (n) are all that DistBelief adds.
//
//   ./own_loop                     alone
//   mpirun -n 2 ./own_loop         with two workers: the same samples, shared out
//
// Expected output (the loss falls to almost nothing):
//   epoch 1 of 3, mean loss 0.1..
//   epoch 3 of 3, mean loss 0.0000
//   saved own_loop.safetensors, weights 959e...
#include <distbelief/distbelief.h>
#include <torch/torch.h>

#include <cstdio>

struct Net : torch::nn::Module {
  Net()
      : fc1(register_module("fc1", torch::nn::Linear(64, 128))),
        fc2(register_module("fc2", torch::nn::Linear(128, 4))) {}
  torch::Tensor forward(torch::Tensor x) { return fc2(torch::relu(fc1(x))); }
  torch::nn::Linear fc1, fc2;
};

// Four noisy patterns to tell apart: stands for your data set.
struct Patterns : torch::data::Dataset<Patterns> {
  torch::data::Example<> get(size_t index) override {
    const auto label = static_cast<int64_t>(index % 4);
    torch::Tensor image = torch::sin(torch::arange(64) * static_cast<double>(label + 1) * 0.1);
    return {image + 0.3 * torch::cos(torch::arange(64) * static_cast<double>(index)), torch::tensor(label)};
  }
  torch::optional<size_t> size() const override { return 4003; }
};

int main() {
  distbelief::World world = distbelief::World::create();  // (1) MPI, or alone
  torch::manual_seed(1);
  auto net = std::make_shared<Net>();
  distbelief::DataParallel parallel(world, net,
                                    {.optimizer = {.name = "sgd", .lr = 0.05, .momentum = 0.9}});  // (2)

  auto data = Patterns().map(torch::data::transforms::Stack<>());
  const distbelief::EpochSampler sampler(world, 4003, 64,
                                         1);  // every sample exactly once, whatever the workers
  auto loader = torch::data::make_data_loader(data, sampler, 64);
  for (int epoch = 1; epoch <= 3; ++epoch) {
    double total = 0;
    size_t step = 0;
    for (auto& batch : *loader) {
      auto loss = torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
      parallel.backward(loss, sampler.share(step++));  // (3) instead of loss.backward(), optimizer.step()
      parallel.step();
      total += loss.item<double>();
    }
    if (world.rank() == 0) std::printf("epoch %d of 3, mean loss %.4f\n", epoch, total / double(step));
  }
  if (world.rank() == 0) {
    distbelief::train::save_model(*net, "own_loop.safetensors");
    std::printf("saved own_loop.safetensors, weights %s\n", distbelief::train::weights_sha256(*net).c_str());
  }
  world.close();
}
