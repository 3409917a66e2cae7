// A libtorch training loop of one's own on many processes. Lines marked (n) are all that DistBelief adds.
//
//   ./own_loop                            alone
//   mpirun -n 2 ./own_loop                with two workers: the same samples, shared out
//   mpirun -n 2 ./own_loop adam           with an optimizer of torch's own
//   ./own_loop sgd own_loop.safetensors   begins with the weights of a file
//
// Expected output (the loss falls to almost nothing; its mean is that of all workers):
//   epoch 1 of 3, mean loss 0.1..
//   epoch 3 of 3, mean loss 0.0000
//   saved own_loop.safetensors, weights 959e...
#include <distbelief/distbelief.h>
#include <torch/torch.h>

#include <cstdio>
#include <optional>
#include <string>

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

int main(int argc, char** argv) {
  const bool own_optimizer = argc > 1 && std::string(argv[1]) == "adam";
  distbelief::World world = distbelief::World::create();  // (1) MPI, or alone
  torch::manual_seed(1);
  auto net = std::make_shared<Net>();
  if (argc > 2) distbelief::run::load_model(*net, argv[2]);
  std::optional<distbelief::DataParallel> parallel;      // (2) trains the module, or
  std::optional<distbelief::GradientAverager> averager;  //     averages gradients for
  torch::optim::Adam adam(net->parameters(), 1e-3);      //     an optimizer of your own
  if (own_optimizer)
    averager.emplace(world, net);
  else
    parallel.emplace(world, net, distbelief::DataParallel::Options{.optimizer = {.name = "sgd", .lr = 0.05}});

  auto data = Patterns().map(torch::data::transforms::Stack<>());
  // Every sample exactly once per epoch, whatever the workers.
  const distbelief::EpochSampler sampler(world, 4003, 64, 1);
  auto loader = torch::data::make_data_loader(data, sampler, 64);
  for (int epoch = 1; epoch <= 3; ++epoch) {
    double total = 0;
    size_t step = 0;
    for (auto& batch : *loader) {
      auto loss = torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
      const distbelief::BatchShare share = sampler.share(step++);
      own_optimizer ? averager->backward(loss, share) : parallel->backward(loss, share);  // (3)
      own_optimizer ? (void)adam.step() : parallel->step();
      total += loss.item<double>() * double(share.samples) / double(share.global_samples);
    }
    world.communicator().allreduce(distbelief::comm::view(&total, 1), distbelief::comm::ReduceOp::kSum);
    if (world.rank() == 0) std::printf("epoch %d of 3, mean loss %.4f\n", epoch, total / double(step));
  }
  if (world.rank() == 0) {
    distbelief::run::save_model(*net, "own_loop.safetensors");
    std::printf("saved own_loop.safetensors, weights %s\n", distbelief::run::weights_sha256(*net).c_str());
  }
  world.close();
}
