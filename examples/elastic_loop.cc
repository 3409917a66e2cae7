// A training loop of one's own that survives: workers may be killed, and their number changed, while it runs.
// Lines marked (n) are all that it takes beyond own_loop.cc.
//
//   distbelief launch --workers 2 --run-dir runs/mine -- ./elastic_loop
//   distbelief scale runs/mine 3          from another terminal; or kill -9 one of its processes
//   ./elastic_loop                        alone; mpirun -n 2 ./elastic_loop: as ever
//
// Arguments: epochs (10); a file to append each worker's samples to; a folder for checkpoints without launch.
// Expected output (the loss falls; with the same number of workers the same weights, whoever was killed):
//   epoch 1 of 10, loss 0.0...
//   epoch 10 of 10, loss 0.000...
//   done after 630 steps, weights 4c84...
#include <distbelief/distbelief.h>
#include <distbelief/elastic/tracked.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

constexpr size_t kSamples = 4003;

struct Net : torch::nn::Module {
  Net()
      : fc1(register_module("fc1", torch::nn::Linear(64, 128))),
        norm(register_module("norm", torch::nn::BatchNorm1d(128))),
        drop(register_module("drop", torch::nn::Dropout(0.2))),
        fc2(register_module("fc2", torch::nn::Linear(128, 4))) {}
  torch::Tensor forward(torch::Tensor x) { return fc2(drop(torch::relu(norm(fc1(x))))); }
  torch::nn::Linear fc1;
  torch::nn::BatchNorm1d norm;
  torch::nn::Dropout drop;
  torch::nn::Linear fc2;
};

// Four noisy patterns to tell apart: stands for your data set. Notes what it was asked for.
struct Patterns : torch::data::Dataset<Patterns> {
  explicit Patterns(std::shared_ptr<std::vector<size_t>> given) : given(std::move(given)) {}
  torch::data::Example<> get(size_t index) override {
    given->push_back(index);
    const auto label = static_cast<int64_t>(index % 4);
    torch::Tensor image = torch::sin(torch::arange(64) * static_cast<double>(label + 1) * 0.1);
    return {image + 0.3 * torch::cos(torch::arange(64) * static_cast<double>(index)), torch::tensor(label)};
  }
  torch::optional<size_t> size() const override { return kSamples; }
  std::shared_ptr<std::vector<size_t>> given;
};

// A line per worker and batch: epoch, step, workers, worker, samples.
void note(std::FILE* file, const distbelief::World& world, const distbelief::elastic::Tracked& run,
          std::vector<size_t>& given) {
  std::string line = std::to_string(run.epoch()) + " " + std::to_string(run.step()) + " " +
                     std::to_string(world.size()) + " " + std::to_string(world.rank());
  for (const size_t index : given) line += " " + std::to_string(index);
  given.clear();
  if (file != nullptr) std::fprintf(file, "%s\n", line.c_str());
  if (file != nullptr) std::fflush(file);
}

int main(int argc, char** argv) {
  const int64_t epochs = argc > 1 ? std::atoi(argv[1]) : 10;
  std::FILE* file = argc > 2 ? std::fopen(argv[2], "a") : nullptr;
  distbelief::World world = distbelief::World::create();
  torch::manual_seed(1 + static_cast<uint64_t>(world.rank()));
  auto net = std::make_shared<Net>();
  distbelief::GradientAverager averager(world, net);
  torch::optim::Adam optimizer(net->parameters(), 1e-3);

  auto given = std::make_shared<std::vector<size_t>>();
  distbelief::EpochSampler sampler(world, kSamples, 64, 1);
  distbelief::elastic::Tracked run(world, *net, optimizer, sampler,
                                   {.folder = argc > 3 ? argv[3] : ""});  // (1) waits for its turn; goes on
  auto loader =
      torch::data::make_data_loader(Patterns(given).map(torch::data::transforms::Stack<>()), sampler, 64);
  while (run.epoch() < epochs) {
    double last = 0;
    for (auto& batch : *loader) {
      auto loss = torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
      averager.backward(loss, run.share());
      optimizer.step();
      note(file, world, run, *given);
      if (!run.commit(last = loss.item<double>())) return run.leave();  // (2) saves when due; obeys
    }
    if (world.rank() == 0)
      std::printf("epoch %ld of %ld, loss %.4f\n", long(run.epoch()), long(epochs), last);
  }
  if (world.rank() == 0)
    std::printf("done after %ld steps, weights %s\n", long(run.step()),
                distbelief::run::weights_sha256(*net).c_str());
  return run.leave();  // (3) instead of world.close()
}
