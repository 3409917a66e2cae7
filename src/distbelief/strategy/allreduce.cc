#include "distbelief/strategy/allreduce.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "distbelief/base/error.h"
#include "distbelief/base/prefetch.h"
#include "distbelief/base/vector.h"
#include "distbelief/compute/kernels.h"

namespace distbelief::strategy {
namespace {

using compute::kBlock;
using compute::Segment;
using compute::Span;
using Clock = std::chrono::steady_clock;

enum NormArray : int { kGradientNorms = 0, kParameterNorms = 1, kDirectionNorms = 2 };

// Adds the time until it goes out of scope, and tells the observer.
class Timed {
 public:
  Timed(std::chrono::nanoseconds& total, Observer* observer, const char* what, int bucket)
      : total_(total),
        observer_(observer),
        what_(what),
        bucket_(bucket),
        begin_(Clock::now()) {}
  ~Timed() {
    const auto end = Clock::now();
    total_ += end - begin_;
    if (observer_) observer_->span(what_, bucket_, begin_, end);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  std::chrono::nanoseconds& total_;
  Observer* observer_;
  const char* what_;
  int bucket_;
  Clock::time_point begin_;
};

}  // namespace

int AllreduceSharing::norm_rounds(const compute::Optimizer& optimizer, double clip_norm) {
  return (clip_norm > 0 ? 1 : 0) + (dynamic_cast<const compute::LayerwiseOptimizer*>(&optimizer) ? 1 : 0);
}

bool AllreduceSharing::keeps_sums(const Options& options) {
  // Through a window sums are made while backward runs: only an early update can use them at once.
  const bool wait =
      options.windowed ? options.overlap != Overlap::kUpdate : options.overlap == Overlap::kReduce;
  return options.plan->hosts.size() > 1 || wait || norm_rounds(*options.optimizer, options.clip_norm) > 0;
}

AllreduceSharing::AllreduceSharing(Options options)
    : options_(std::move(options)),
      layerwise_(dynamic_cast<const compute::LayerwiseOptimizer*>(options_.optimizer)),
      fused_(!keeps_sums(options_)),
      early_update_(options_.overlap == Overlap::kUpdate &&
                    norm_rounds(*options_.optimizer, options_.clip_norm) == 0),
      buckets_(int(options_.layout->buckets().size())),
      states_(options_.optimizer->state_names().size()),
      share_(slice_share(*options_.plan, options_.host, options_.domain->member())),
      // No deadline of its own: it begins to wait when forward begins, and a step may take any time. Those
      // who compute watch each other, and the abort record ends this.
      resting_waiter_(options_.domain->abort(), std::chrono::hours(24 * 365), std::chrono::nanoseconds(0)) {
  const std::size_t parameters = options_.layout->entries().size();
  update_counts_.resize(parameters);
  seen_.resize(parameters);
  pending_.resize(std::size_t(buckets_));
  trust_.assign(parameters, 1.0);
  mean_buffers_.resize(options_.buffers);
  lane_samples_.resize(std::size_t(options_.plan->lanes));
  std::size_t most = 1;
  for (const HostNode& node : host().nodes) most = std::max(most, node.sources.size());
  scratch_.resize(kBlock * (most + 1));
  if (options_.windowed) {
    make_window();
  } else if (fused_) {
    sources_ = host().nodes[0].sources;
    merges_ = host().nodes[0].merges;
  }
}

const Carrier& AllreduceSharing::carrier() const {
  return options_.plan->carriers[std::size_t(host().first_carrier + options_.domain->member())];
}

std::uint32_t AllreduceSharing::count_of(int buckets) const {
  return std::uint32_t(round_ * buckets_ + buckets);
}

std::uint32_t AllreduceSharing::count_of_items(std::int64_t items) const {
  return std::uint32_t(round_ * window_->items() + items);
}

const float* AllreduceSharing::sum_of(int bucket) const {
  if (!several_hosts()) return options_.state->sum(0, bucket);
  return options_.state->world_sum() + options_.layout->buckets()[std::size_t(bucket)].span.begin;
}

Span AllreduceSharing::own_slice(Span span) const {
  if (share_.member == share_.members) return {span.end, span.end};
  return compute::slice_of(span, share_.members, share_.member);
}

Span AllreduceSharing::reduce_slice(int bucket) const {
  return own_slice(options_.layout->buckets()[std::size_t(bucket)].span);
}

Span AllreduceSharing::update_slice(int bucket) const {
  return own_slice(host_chunk(options_.layout->buckets()[std::size_t(bucket)].span, options_.algorithm,
                              int(options_.plan->hosts.size()), options_.host));
}

void AllreduceSharing::begin_step(const StepPlan& plan) {
  ++round_;
  step_ = plan;
  std::copy(plan.lane_samples.begin(), plan.lane_samples.end(), lane_samples_.begin());
  std::memset(options_.state->touched(options_.domain->member(), round_), 0,
              options_.layout->entries().size());
  for (int b = 0; b < buckets_; ++b)
    pending_[std::size_t(b)] = int(options_.layout->buckets()[std::size_t(b)].parameters.size());
  filled_ = reduced_ = updated_ = 0;
  gradient_scale_ = 1;
  in_backward_ = true;
  if (options_.exchange) options_.exchange->start_step(round_, step_.step);
  if (window_) window_->begin_step();
  added_ = handed_in_ = 0;
  if (passes_) begin_laps();
  if (has_lanes()) return;  // else nobody waits for gradients from here
  own().ready.raise(window_ ? count_of_items(window_->items()) : count_of(buckets_));
}

void AllreduceSharing::begin_lane(std::int64_t lane) {
  lane_ = lane;
  std::fill(seen_.begin(), seen_.end(), 0);
  if (passes_) passes_->begin_lap();
  if (window_) return window_->begin_lane();
  const Carrier& me = carrier();
  lane_slot_ = 0;
  for (std::int64_t before = me.first_lane; before < lane; ++before)
    lane_slot_ += 1 - me.program.merges[std::size_t(before - me.first_lane)];
  lane_merges_ = me.program.merges[std::size_t(lane - me.first_lane)];
}

std::span<float> AllreduceSharing::lane_buffers() {
  return {options_.state->lane_buffers(lane_, round_), options_.buffers};
}

void AllreduceSharing::gradient(int parameter, const float* values) {
  seen_[std::size_t(parameter)] = 1;
  options_.state->touched(options_.domain->member(), round_)[parameter] = 1;
  if (window_) return window_->put(parameter, values);
  store(parameter, values);
  filled(parameter);
}

// Pushes a lane's gradient on the stack of buffers and does the merges that are due, in one pass.
void AllreduceSharing::store(int parameter, const float* values) {
  const compute::Entry& entry = options_.layout->entries()[std::size_t(parameter)];
  const auto buffer = [&](int at) {
    return options_.state->gradients(options_.domain->member(), at) + entry.offset;
  };
  if (lane_merges_ == 0) {
    std::memcpy(buffer(lane_slot_), values, entry.count * sizeof(float));
    return;
  }
  for (std::size_t at = 0; at < entry.count; at += kBlock) {
    const std::size_t count = std::min(kBlock, entry.count - at);
    const float* right = values + at;
    for (int merge = 1; merge <= lane_merges_; ++merge) {
      float* left = buffer(lane_slot_ - merge) + at;
      float* out = merge == lane_merges_ ? left : scratch_.data();
      add(out, left, right, count);
      right = out;
    }
  }
}

void AllreduceSharing::filled(int parameter) {
  if (lane_ + 1 != carrier().end_lane) return;
  if (--pending_[std::size_t(options_.layout->bucket_of(parameter))] > 0) return;
  const int before = filled_;
  while (filled_ < buckets_ && pending_[std::size_t(filled_)] == 0) ++filled_;
  if (filled_ == before) return;
  own().ready.raise(count_of(filled_));
  if (options_.overlap == Overlap::kOff || !in_backward_) return;
  const auto begin = Clock::now();
  advance(Mode::kPoll);
  times_.early += Clock::now() - begin;
}

void AllreduceSharing::end_lane() {
  if (passes_) passes_->end_lap();
  static constexpr std::size_t kZeros = std::size_t{1} << 16;
  std::vector<float> zeros;
  if (window_) {  // in the order of buckets, so that nothing has to be set aside
    for (std::size_t p = seen_.size(); p-- > 0;)
      if (!seen_[p]) window_->put(int(p), nullptr);
    return;
  }
  for (std::size_t p = 0; p < seen_.size(); ++p) {
    if (seen_[p]) continue;
    zeros.resize(std::max({zeros.size(), kZeros, options_.layout->entries()[p].count}));
    store(int(p), zeros.data());
    filled(int(p));
  }
}

void AllreduceSharing::end_step() {
  sum_up();
  finish_step(std::accumulate(squared_norms_.begin(), squared_norms_.end(), 0.0));
}

void AllreduceSharing::sum_up() {
  in_backward_ = false;
  const auto begin = Clock::now();
  if (passes_) passes_->end();
  advance(Mode::kBlock);
  if (!fused_ && several_hosts())
    enter_host(&HostSignals::exchanged, count_of(buckets_), "exchange gradients", Mode::kBlock);
  if (options_.clip_norm > 0) measure_gradients();
  times_.late += Clock::now() - begin;
}

void AllreduceSharing::finish_step(double squared_norm) {
  const auto begin = Clock::now();
  if (options_.clip_norm > 0) {
    gradient_norm_ = std::sqrt(squared_norm);
    gradient_scale_ = float(std::min(1.0, options_.clip_norm / (gradient_norm_ + 1e-6)));
  }
  if (layerwise_) measure_layers();
  for (; !fused_ && updated_ < buckets_; ++updated_) {
    update_bucket(updated_);
    own().updated.raise(count_of(updated_ + 1));
  }
  if (several_hosts())
    enter_host(&HostSignals::published, count_of(buckets_), "publish parameters", Mode::kBlock);
  if (!several_hosts() || passes_)
    enter(&CarrierSignals::updated, count_of(buckets_), "update parameters", Mode::kBlock);
  if (options_.exchange) options_.exchange->finish_step();
  count_updates();
  average_buffers();
  times_.late += Clock::now() - begin;
}

// Does what can be done with the buckets that are ready, in their order; kBlock: with all.
void AllreduceSharing::advance(Mode mode) {
  if (window_) {
    while (added_ < window_->items() && take_item(mode)) {
    }
    return update_early(buckets_, mode);
  }
  if (fused_) {
    for (; updated_ < buckets_; ++updated_) {
      if (!early_update_ && mode == Mode::kPoll) return;
      if (!enter(&CarrierSignals::ready, count_of(updated_ + 1), "compute gradients", mode)) return;
      update_bucket(updated_);
      own().updated.raise(count_of(updated_ + 1));
    }
    return;
  }
  for (; reduced_ < buckets_; ++reduced_) {
    if (!enter(&CarrierSignals::ready, count_of(reduced_ + 1), "compute gradients", mode)) break;
    reduce_bucket(reduced_);
    own().reduced.raise(count_of(reduced_ + 1));
  }
  update_early(buckets_, mode);
}

// With several hosts: what is summed over all of them while backward still runs.
void AllreduceSharing::update_early(int end_bucket, Mode mode) {
  if (!early_update_ || !several_hosts()) return;
  for (; updated_ < end_bucket; ++updated_) {
    if (!enter_host(&HostSignals::exchanged, count_of(updated_ + 1), "exchange gradients", mode)) return;
    update_bucket(updated_);
    own().updated.raise(count_of(updated_ + 1));
  }
}

bool AllreduceSharing::enter(comm::Signal CarrierSignals::*signal, std::uint32_t wanted, const char* what,
                             Mode mode) {
  for (int c = 0; c < options_.domain->members(); ++c) {
    comm::Signal& awaited = options_.state->carrier(c).*signal;
    if (awaited.reached(wanted)) continue;
    if (mode == Mode::kPoll) return false;
    const Timed timed(times_.waiting, options_.observer, what, -1);
    const comm::Waiter& waiter = has_lanes() ? options_.domain->waiter() : resting_waiter_;
    waiter.wait(awaited, wanted,
                {.rank = options_.domain->rank_of(c), .operation = what, .step = step_.step});
  }
  return true;
}

bool AllreduceSharing::enter_host(comm::Signal HostSignals::*signal, std::uint32_t wanted, const char* what,
                                  Mode mode) {
  comm::Signal& awaited = options_.state->host().*signal;
  if (awaited.reached(wanted)) return true;
  if (mode == Mode::kPoll) return false;
  const Timed timed(times_.waiting, options_.observer, what, -1);
  // The exchange has a deadline of its own and knows which host is silent.
  const comm::Waiter& waiter = has_lanes() ? options_.domain->patient_waiter() : resting_waiter_;
  waiter.wait(awaited, wanted, {.rank = options_.domain->rank_of(0), .operation = what, .step = step_.step});
  return true;
}

void AllreduceSharing::reduce_bucket(int bucket) {
  const Timed timed(times_.updating, options_.observer, "reduce", bucket);
  const Span slice = reduce_slice(bucket);
  const std::size_t begin = options_.layout->buckets()[std::size_t(bucket)].span.begin;
  for (std::size_t n = 0; n < host().nodes.size(); ++n) {
    const HostNode& node = host().nodes[n];
    inputs_.resize(node.sources.size());
    for (std::size_t at = slice.begin; at < slice.end; at += kBlock) {
      for (std::size_t i = 0; i < inputs_.size(); ++i)
        inputs_[i] = options_.state->gradients(node.sources[i].carrier, node.sources[i].slot) + at;
      const float* sum = tree_sum<float>(inputs_, node.merges, kBlock, scratch_.data());
      std::memcpy(options_.state->sum(int(n), bucket) + (at - begin), sum, kBlock * sizeof(float));
    }
  }
}

void AllreduceSharing::update_bucket(int bucket) {
  const Timed timed(times_.updating, options_.observer, "update", bucket);
  const Span slice = update_slice(bucket);
  inputs_.resize(sources_.size());
  const std::size_t begin = options_.layout->buckets()[std::size_t(bucket)].span.begin;
  const float* sums = fused_ ? nullptr : sum_of(bucket);
  for (std::size_t at = slice.begin; at < slice.end; at += kBlock) {
    if (sums) {
      update_block(at, at + kBlock, sums + (at - begin));
      continue;
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      inputs_[i] = options_.state->gradients(sources_[i].carrier, sources_[i].slot) + at;
      if (at + kBlock < slice.end && sources_[i].carrier != options_.domain->member())
        prefetch(inputs_[i] + kBlock, kBlock * sizeof(float));
    }
    if (at + kBlock < slice.end)
      prefetch_for_write(options_.state->parameters() + at + kBlock, kBlock * sizeof(float));
    update_block(at, at + kBlock, tree_sum<float>(inputs_, merges_, kBlock, scratch_.data()));
  }
}

void AllreduceSharing::update_block(std::size_t begin, std::size_t end, const float* gradients) {
  float* scaled = scratch_.data() + scratch_.size() - kBlock;
  if (gradient_scale_ != 1) {
    std::memcpy(scaled, gradients, (end - begin) * sizeof(float));
    scale(scaled, gradient_scale_, end - begin);
    gradients = scaled;
  }
  const std::size_t block = begin / kBlock;
  for (std::size_t i = options_.layout->first_segment(block); i < options_.layout->first_segment(block + 1);
       ++i) {
    const Segment& segment = options_.layout->segments()[i];
    if (touched(segment.parameter))
      options_.optimizer->update(range_of(segment, gradients + (segment.span.begin - begin)));
  }
}

compute::UpdateRange AllreduceSharing::range_of(const Segment& segment, const float* gradients) const {
  compute::UpdateRange range;
  range.parameters = options_.state->parameters() + segment.span.begin;
  range.gradients = gradients;
  for (std::size_t i = 0; i < states_; ++i)
    range.states[i] = options_.state->state(int(i)) + segment.span.begin;
  range.count = segment.span.size();
  range.lr = step_.lr;
  range.step = update_counts_[std::size_t(segment.parameter)] + 1;
  range.trust = trust_[std::size_t(segment.parameter)];
  return range;
}

// A parameter that no lane gave a gradient keeps its value, as in torch.
bool AllreduceSharing::touched(int parameter) const {
  for (int c = 0; c < options_.domain->members(); ++c)
    if (options_.state->touched(c, round_)[parameter]) return true;
  return several_hosts() && options_.state->host_touched(round_)[parameter];
}

template <typename Visit>
void AllreduceSharing::for_each_segment(int bucket, const Visit& visit) const {
  const Span slice = update_slice(bucket);
  const std::size_t end = options_.layout->first_segment(slice.end / kBlock);
  for (std::size_t i = options_.layout->first_segment(slice.begin / kBlock); i < end; ++i)
    visit(i, options_.layout->segments()[i]);
}

void AllreduceSharing::measure_gradients() {
  for (int b = 0; b < buckets_; ++b) {
    const float* sum = sum_of(b);
    const std::size_t begin = options_.layout->buckets()[std::size_t(b)].span.begin;
    for_each_segment(b, [&](std::size_t i, const Segment& segment) {
      options_.state->norms(kGradientNorms)[i] =
          compute::sum_of_squares(sum + (segment.span.begin - begin), segment.span.size());
    });
  }
  meet_measures("measure the gradient's norm");
  squared_norms_.assign(options_.layout->entries().size(), 0.0);
  for (std::size_t i = 0; i < options_.layout->segments().size(); ++i) {
    const int parameter = options_.layout->segments()[i].parameter;
    if (touched(parameter))
      squared_norms_[std::size_t(parameter)] += options_.state->norms(kGradientNorms)[i];
  }
}

void AllreduceSharing::measure_layers() {
  std::vector<double> parameter_sum(trust_.size()), direction_sum(trust_.size());
  for (int b = 0; b < buckets_; ++b)
    for_each_segment(b, [&](std::size_t i, const Segment& segment) {
      if (!touched(segment.parameter)) return;
      const std::size_t begin = options_.layout->buckets()[std::size_t(b)].span.begin;
      std::memcpy(scratch_.data(), sum_of(b) + (segment.span.begin - begin),
                  segment.span.size() * sizeof(float));
      if (gradient_scale_ != 1) scale(scratch_.data(), gradient_scale_, segment.span.size());
      const compute::Norms norms = layerwise_->measure(range_of(segment, scratch_.data()));
      options_.state->norms(kParameterNorms)[i] = norms.parameters;
      options_.state->norms(kDirectionNorms)[i] = norms.direction;
    });
  meet_measures("measure the layers' norms");
  for (std::size_t i = 0; i < options_.layout->segments().size(); ++i) {
    const auto p = std::size_t(options_.layout->segments()[i].parameter);
    parameter_sum[p] += options_.state->norms(kParameterNorms)[i];
    direction_sum[p] += options_.state->norms(kDirectionNorms)[i];
  }
  if (options_.join_layers) {
    options_.join_layers(parameter_sum);
    options_.join_layers(direction_sum);
  }
  for (std::size_t p = 0; p < trust_.size(); ++p)
    trust_[p] = layerwise_->trust({parameter_sum[p], direction_sum[p]});
}

// All carriers' norms are there afterwards, those of other hosts included.
void AllreduceSharing::meet_measures(const char* what) {
  own().measured.raise(++measures_);
  if (several_hosts())
    enter_host(&HostSignals::measured, measures_, what, Mode::kBlock);
  else
    enter(&CarrierSignals::measured, measures_, what, Mode::kBlock);
}

void AllreduceSharing::count_updates() {
  for (std::size_t p = 0; p < update_counts_.size(); ++p)
    if (touched(int(p))) ++update_counts_[p];
}

// In double and in lane order: the same on every carrier, and exactly the lane's own for a single lane.
void AllreduceSharing::average_buffers() {
  if (options_.buffers == 0) return;
  std::vector<double> sums(options_.buffers);
  int lanes = 0;
  for (std::int64_t lane = 0; lane < options_.plan->lanes; ++lane) {
    if (lane_samples_[std::size_t(lane)] == 0) continue;
    ++lanes;
    const float* values = options_.state->lane_buffers(lane, round_);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += double(values[i]);
  }
  for (std::size_t i = 0; lanes > 0 && i < sums.size(); ++i) mean_buffers_[i] = float(sums[i] / lanes);
}

}  // namespace distbelief::strategy
