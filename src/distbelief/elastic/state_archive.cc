#include "distbelief/elastic/state_archive.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"

namespace distbelief::elastic {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

class TorchOptimizerState final : public OptimizerState {
 public:
  explicit TorchOptimizerState(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {}

  void gather() override {}  // every worker has the whole state
  void save(OutputArchive& archive) const override {
    OutputArchive own(archive.compilation_unit());
    optimizer_.save(own);
    archive.write("torch", own);
    std::vector<double> rates;
    for (const auto& group : optimizer_.param_groups()) rates.push_back(group.options().get_lr());
    archive.write("rates", torch::tensor(rates, torch::kFloat64), /*is_buffer=*/true);
  }
  // torch 1.13 restores the state but not the learning rates that a schedule has set.
  void load(InputArchive& archive) override {
    InputArchive own;
    archive.read("torch", own);
    optimizer_.load(own);
    torch::Tensor rates;
    archive.read("rates", rates, /*is_buffer=*/true);
    for (std::size_t i = 0; i < optimizer_.param_groups().size(); ++i)
      optimizer_.param_groups()[i].options().set_lr(rates[std::int64_t(i)].item<double>());
  }

 private:
  torch::optim::Optimizer& optimizer_;
};

class OwnOptimizerState final : public OptimizerState {
 public:
  explicit OwnOptimizerState(DataParallel& parallel) : parallel_(parallel) {}
  void gather() override { parallel_.gather_state(); }
  void save(OutputArchive& archive) const override { parallel_.save(archive); }
  void load(InputArchive& archive) override { parallel_.load(archive); }

 private:
  DataParallel& parallel_;
};

// Parameters, then buffers, by name; a tensor's archive key is its index.
torch::OrderedDict<std::string, torch::Tensor> tensors_of(const torch::nn::Module& model) {
  torch::OrderedDict<std::string, torch::Tensor> tensors = model.named_parameters();
  for (const auto& buffer : model.named_buffers()) tensors.insert("buffer " + buffer.key(), buffer.value());
  return tensors;
}

std::string describe(const torch::nn::Module& model) {
  std::string text;
  for (const auto& item : tensors_of(model))
    text += fmt::format("{} {} [{}]\n", item.key(), torch::toString(item.value().scalar_type()),
                        fmt::join(item.value().sizes(), ","));
  return text;
}

void require_same(const std::string& saved, const std::string& own) {
  if (saved == own) return;
  const auto at = std::mismatch(saved.begin(), saved.end(), own.begin(), own.end());
  const auto line = [](const std::string& text, std::size_t place) {
    const std::size_t begin = text.rfind('\n', place == 0 ? 0 : place - 1);
    const std::size_t first = begin == std::string::npos ? 0 : begin + 1;
    return text.substr(first, text.find('\n', first) - first);
  };
  throw Error(ErrorCode::kBadInput,
              fmt::format("the saved state is of another model: it has '{}' where this one has '{}'; start a "
                          "new run in another folder",
                          line(saved, std::size_t(at.first - saved.begin())),
                          line(own, std::size_t(at.second - own.begin()))));
}

torch::Tensor read_tensor(InputArchive& archive, const std::string& key) {
  torch::Tensor tensor;
  archive.read(key, tensor, /*is_buffer=*/true);
  return tensor;
}

void set_random(const torch::Tensor& all, int rank) {
  if (rank >= all.size(0)) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(all[rank].clone());
}

Position read_archive(InputArchive& archive, World& world, torch::nn::Module& model,
                      OptimizerState& optimizer) {
  c10::IValue names;
  archive.read("model", names);
  require_same(names.toStringRef(), describe(model));
  const torch::NoGradGuard no_grad;
  int index = 0;
  // Copies into the existing memory, which may be a view shared with others.
  for (auto& item : tensors_of(model))
    item.value().copy_(read_tensor(archive, fmt::format("tensor{}", index++)));
  InputArchive own;
  archive.read("optimizer", own);
  optimizer.load(own);
  set_random(read_tensor(archive, "random"), world.rank());
  const model::HostValues<std::int64_t> position(read_tensor(archive, "position"));
  return {position[0], position[1], position[2]};
}

}  // namespace

std::unique_ptr<OptimizerState> state_of(torch::optim::Optimizer& optimizer) {
  return std::make_unique<TorchOptimizerState>(optimizer);
}
std::unique_ptr<OptimizerState> state_of(DataParallel& parallel) {
  return std::make_unique<OwnOptimizerState>(parallel);
}

torch::Tensor gather_random(World& world) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const torch::Tensor own = [&] {
    const std::lock_guard lock(generator.mutex());
    return generator.get_state();
  }();
  // A sum in which each row has one worker's bytes and zeros from all others.
  const std::int64_t words = (own.numel() + 7) / 8;
  torch::Tensor all = torch::zeros({world.size(), words}, torch::kInt64);
  std::ranges::copy(model::host_bytes(own), model::host_bytes(all[world.rank()]).begin());
  const std::span<std::int64_t> sums = model::host_elements<std::int64_t>(all);
  world.communicator().allreduce(comm::view(sums.data(), sums.size()), comm::ReduceOp::kSum);
  return all.view(torch::kUInt8).slice(1, 0, own.numel()).contiguous();
}

std::string write_state(const torch::nn::Module& model, const OptimizerState& optimizer,
                        const Position& position, const torch::Tensor& random) {
  const torch::NoGradGuard no_grad;
  OutputArchive archive;
  archive.write("model", c10::IValue(describe(model)));
  int index = 0;
  for (const auto& item : tensors_of(model))
    archive.write(fmt::format("tensor{}", index++), item.value().detach(), /*is_buffer=*/true);
  OutputArchive own(archive.compilation_unit());
  optimizer.save(own);
  archive.write("optimizer", own);
  archive.write("random", random, /*is_buffer=*/true);
  archive.write("position", torch::tensor({position.epoch, position.batch, position.step}),
                /*is_buffer=*/true);
  std::string bytes;
  archive.save_to([&](const void* data, std::size_t count) {
    bytes.append(static_cast<const char*>(data), count);
    return count;
  });
  return bytes;
}

Position read_state(const std::string& bytes, World& world, torch::nn::Module& model,
                    OptimizerState& optimizer) {
  Position position;
  try {
    InputArchive archive;
    archive.load_from(bytes.data(), bytes.size());
    position = read_archive(archive, world, model, optimizer);
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("the saved state does not fit this program's optimizer ({}); start a new run in "
                            "another folder",
                            error.what_without_backtrace()));
  }
  world.communicator().barrier();  // workers of a host may share the parameters
  return position;
}

}  // namespace distbelief::elastic
