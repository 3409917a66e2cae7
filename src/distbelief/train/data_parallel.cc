#include "distbelief/train/data_parallel.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/compute/buffers.h"
#include "distbelief/compute/replica.h"
#include "distbelief/model/device.h"

namespace distbelief {
namespace {

std::string names_text(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

mesh::AllreduceGroup::Options group_options(const DataParallel::Options& options, std::size_t buffers) {
  mesh::AllreduceGroup::Options group;
  group.optimizer = options.optimizer;
  group.clip_norm = options.clip_norm;
  group.overlap = options.overlap;
  group.lane_values = buffers;
  return group;
}

float weight(BatchShare share, int workers) {
  if (share.global_samples == 0) return float(1.0 / workers);
  return float(double(share.samples) / double(share.global_samples));
}

// The common part of both ways: a lane per worker, gradients handed over as backward finishes them.
struct Exchange {
  Exchange(World& w, std::shared_ptr<torch::nn::Module> module, const DataParallel::Options& options)
      : world(w),
        buffers(*module),
        group(w, compute::trainable_parameters(*module), group_options(options, buffers.size())),
        samples(std::size_t(w.size()), 1) {}

  void backward(compute::Replica& replica, const torch::Tensor& loss, float factor, std::int64_t step,
                double lr) {
    mesh::AllreduceSharing& sharing = group.sharing(0);
    sharing.begin_step({step, lr, samples});
    sharing.begin_lane(world.rank());
    buffers.read(sharing.lane_buffers());
    replica.backward(
        loss, factor, [&](int parameter, const float* values) { sharing.gradient(parameter, values); },
        [&](int parameter) { return sharing.gradient_place(parameter); });
    sharing.end_lane();
  }

  void finish() {
    group.sharing(0).end_step();
    buffers.write(group.sharing(0).mean_buffers());
  }

  World& world;
  compute::BufferSet buffers;
  mesh::AllreduceGroup group;
  std::vector<std::int64_t> samples;
};

}  // namespace

void broadcast_module(World& world, torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  const auto share = [&](torch::Tensor& tensor) {
    const torch::Tensor values = model::on_host(tensor);
    const std::span<std::byte> bytes = model::host_bytes(values);
    world.communicator().broadcast(comm::view(bytes.data(), bytes.size()), 0);
    if (!values.is_same(tensor)) tensor.copy_(values);
  };
  for (torch::Tensor& parameter : module.parameters()) share(parameter);
  for (torch::Tensor& buffer : module.buffers()) share(buffer);
}

struct DataParallel::State {
  State(World& world, const std::shared_ptr<torch::nn::Module>& module, const Options& options)
      : optimizer(options.optimizer.name),
        exchange(world, module, options) {
    if (world.local_rank() == 0)
      compute::copy_parameters(*module, exchange.group.layout(), exchange.group.parameters());
    exchange.group.barrier();
    replica.emplace(module, exchange.group.layout(), exchange.group.parameters());
  }
  // torch::load and Module::to give parameters other memory: what is trained would be seen no more.
  void require_views() const {
    const int moved = replica->moved_away();
    if (moved < 0) return;
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("parameter '{}' has other memory than DataParallel gave it: load weights into the "
                    "module, and move it, before DataParallel is made",
                    exchange.group.layout().entries()[std::size_t(moved)].name));
  }

  std::string optimizer;  // its name: what the state means
  Exchange exchange;
  std::optional<compute::Replica> replica;
  bool backward_done = false;
};

DataParallel::DataParallel(World& world, std::shared_ptr<torch::nn::Module> module, Options options)
    : lr_(options.optimizer.lr) {
  compute::require_own_rule(options.optimizer);
  compute::trainable_parameters(*module);  // refuses what cannot be trained before anything moves
  broadcast_module(world, *module);
  state_ = std::make_unique<State>(world, module, options);
}

DataParallel::~DataParallel() = default;

void DataParallel::backward(const torch::Tensor& loss, BatchShare share) {
  if (state_->backward_done)
    throw Error(ErrorCode::kBadInput, "DataParallel::backward was called twice without step() between");
  state_->require_views();
  state_->exchange.backward(*state_->replica, loss, weight(share, state_->exchange.world.size()), step_, lr_);
  state_->backward_done = true;
}

void DataParallel::step() {
  if (!state_->backward_done)
    throw Error(ErrorCode::kBadInput, "DataParallel::step needs a backward before it");
  state_->exchange.finish();
  state_->backward_done = false;
  ++step_;
}

void DataParallel::gather_state() { state_->exchange.group.share_state(); }

void DataParallel::save(torch::serialize::OutputArchive& archive) const {
  mesh::AllreduceGroup& group = state_->exchange.group;
  archive.write("optimizer", c10::IValue(state_->optimizer));
  archive.write("states", c10::IValue(names_text(group.state_names())));
  const auto size = std::int64_t(group.layout().size());
  for (int i = 0; i < int(group.state_names().size()); ++i)
    archive.write("state" + std::to_string(i), model::borrow_host(group.state(i), {size}, torch::kFloat32),
                  /*is_buffer=*/true);
  archive.write("counts", torch::tensor(group.sharing(0).update_counts()), /*is_buffer=*/true);
  archive.write("lr", torch::tensor(lr_, torch::kFloat64), /*is_buffer=*/true);
  archive.write("step", torch::tensor(step_), /*is_buffer=*/true);
}

void DataParallel::load(torch::serialize::InputArchive& archive) {
  mesh::AllreduceGroup& group = state_->exchange.group;
  c10::IValue optimizer;
  if (!archive.try_read("optimizer", optimizer) || !optimizer.isString())
    throw Error(ErrorCode::kBadInput,
                "the state does not say which optimizer it is of; an earlier version saved it: begin anew "
                "with the weights");
  if (optimizer.toStringRef() != state_->optimizer)
    throw Error(ErrorCode::kBadInput,
                fmt::format("the state is that of optimizer '{}', which '{}' cannot go on with",
                            optimizer.toStringRef(), state_->optimizer));
  c10::IValue states;  // which an earlier version did not save
  if (const std::string own = names_text(group.state_names());
      archive.try_read("states", states) && states.toStringRef() != own)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("the state has [{}] of each parameter, and '{}' with these settings wants [{}]; take "
                    "those that it was saved with (momentum, or none)",
                    states.toStringRef(), state_->optimizer, own));
  const auto read = [&](const std::string& key) {
    torch::Tensor tensor;
    archive.read(key, tensor, /*is_buffer=*/true);
    return tensor;
  };
  for (int i = 0; i < int(group.state_names().size()); ++i) {
    const torch::Tensor values = read("state" + std::to_string(i));
    if (values.numel() != std::int64_t(group.layout().size()) || values.scalar_type() != torch::kFloat32)
      throw Error(ErrorCode::kBadInput, "the optimizer's state is that of another model");
    if (state_->exchange.world.local_rank() == 0)
      std::memcpy(group.state(i), model::HostValues<float>(values).data(), values.nbytes());
  }
  const model::HostValues<std::int64_t> counts(read("counts"));
  if (counts.size() != group.layout().entries().size())
    throw Error(ErrorCode::kBadInput, "the optimizer's state is that of another model");
  group.set_update_counts({counts.begin(), counts.end()});
  lr_ = read("lr").item<double>();
  step_ = read("step").item<std::int64_t>();
  group.barrier();
}

struct GradientAverager::State {
  State(World& world, const std::shared_ptr<torch::nn::Module>& module, const DataParallel::Options& options)
      : exchange(world, module, options),
        replica(module, exchange.group.layout(), nullptr) {}
  Exchange exchange;
  compute::Replica replica;
};

GradientAverager::GradientAverager(World& world, std::shared_ptr<torch::nn::Module> module) {
  compute::trainable_parameters(*module);
  broadcast_module(world, *module);
  DataParallel::Options options;
  options.optimizer.name = compute::kKeepGradient;
  state_ = std::make_unique<State>(world, module, options);
}

GradientAverager::~GradientAverager() = default;

void GradientAverager::backward(const torch::Tensor& loss, BatchShare share) {
  Exchange& exchange = state_->exchange;
  const std::vector<std::int64_t> before = exchange.group.sharing(0).update_counts();
  exchange.backward(state_->replica, loss, weight(share, exchange.world.size()), step_++, 0.0);
  exchange.finish();
  const std::vector<std::int64_t>& after = exchange.group.sharing(0).update_counts();
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (after[i] == before[i]) continue;  // no worker had a gradient for it
    const compute::Entry& entry = exchange.group.layout().entries()[i];
    const torch::Tensor gradient = torch::empty(entry.shape);
    std::memcpy(model::host_elements<float>(gradient).data(), exchange.group.parameters() + entry.offset,
                entry.count * sizeof(float));
    torch::Tensor& parameter = state_->replica.parameters()[i];
    parameter.mutable_grad() = model::on_device(gradient, parameter.device());
  }
}

EpochSampler::EpochSampler(const World& world, std::size_t samples, std::size_t global_batch,
                           std::uint64_t seed)
    : EpochSampler(Place{std::size_t(world.rank()), std::size_t(world.size())}, samples, global_batch, seed) {
}

EpochSampler::EpochSampler(Place place, std::size_t samples, std::size_t global_batch, std::uint64_t seed)
    : rank_(place.rank),
      workers_(place.workers),
      samples_(samples),
      batch_(global_batch),
      seed_(seed) {
  if (samples < workers_ || global_batch < workers_)
    throw Error(ErrorCode::kBadInput, fmt::format("{} samples in batches of {} do not go round {} workers",
                                                  samples, global_batch, workers_));
  steps_ = (samples + batch_ - 1) / batch_;
  if (steps_ > 1 && samples - (steps_ - 1) * batch_ < workers_) --steps_;
}

void EpochSampler::reset(c10::optional<std::size_t> new_size) {
  if (new_size && *new_size != samples_)
    throw Error(ErrorCode::kBadInput, "an EpochSampler's number of samples is fixed; make a new one");
  if (std::exchange(is_placed_, false)) return;
  ++epoch_;
  step_ = 0;
}

void EpochSampler::resume_at(std::int64_t epoch, std::size_t step) {
  if (epoch < 0 || step >= steps_)
    throw Error(ErrorCode::kBadInput,
                fmt::format("an epoch of {} batches cannot be gone on with at batch {}", steps_, step));
  epoch_ = epoch;
  step_ = step;
  is_placed_ = true;
}

bool EpochSampler::can_resume_at(std::size_t step) const {
  return step == 0 || samples_ - std::min(samples_, step * batch_) >= batch_;
}

data::Range EpochSampler::range(std::size_t step) const {
  return {step * batch_, step + 1 == steps_ ? samples_ : (step + 1) * batch_};
}

data::Range EpochSampler::own_range(std::size_t step) const {
  const data::Range all = range(step);
  return {all.begin + all.size() * rank_ / workers_, all.begin + all.size() * (rank_ + 1) / workers_};
}

BatchShare EpochSampler::share(std::size_t step) const {
  return {std::int64_t(own_range(step).size()), std::int64_t(range(step).size())};
}

c10::optional<std::vector<std::size_t>> EpochSampler::next(std::size_t) {
  is_placed_ = false;
  if (step_ == steps_) return c10::nullopt;
  const data::Permutation order(samples_, seed_, std::uint64_t(std::max<std::int64_t>(0, epoch_)));
  const data::Range own = own_range(step_++);
  std::vector<std::size_t> indices;
  for (std::uint64_t at = own.begin; at < own.end; ++at) indices.push_back(std::size_t(order(at)));
  return indices;
}

std::size_t EpochSampler::dealt() const { return step_ == 0 ? 0 : std::size_t(range(step_ - 1).end); }

void EpochSampler::save(torch::serialize::OutputArchive& archive) const {
  const auto number = [](std::size_t value) { return std::int64_t(value); };
  archive.write("position",
                torch::tensor({epoch_, number(step_), number(dealt()), number(samples_), number(batch_)}),
                /*is_buffer=*/true);
}

void EpochSampler::load(torch::serialize::InputArchive& archive) {
  torch::Tensor position;
  archive.read("position", position, /*is_buffer=*/true);
  const auto number = [&](std::int64_t i) { return std::size_t(position[i].item<std::int64_t>()); };
  const auto epoch = position[0].item<std::int64_t>();
  const std::size_t step = number(1);
  const bool is_complete = position.numel() > 2;  // an earlier version saved the first two numbers
  if (is_complete && (number(3) != samples_ || number(4) != batch_))
    throw Error(ErrorCode::kBadInput,
                fmt::format("the sampler was saved with {} samples in batches of {}; these are {} in batches "
                            "of {}",
                            number(3), number(4), samples_, batch_));
  const bool is_between_epochs = is_complete ? number(2) == samples_ : step == steps_;
  if (!is_between_epochs && step >= steps_)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("the rest of the epoch in which the sampler was saved, after {} batches, does not "
                    "go round {} workers; load it with fewer, or save where can_resume_at() says so",
                    step, workers_));
  if (epoch >= 0 && !is_between_epochs) return resume_at(epoch, step);
  epoch_ = epoch;
  step_ = is_between_epochs ? steps_ : step;  // of none that was begun yet: of the first
  is_placed_ = false;
}

}  // namespace distbelief
