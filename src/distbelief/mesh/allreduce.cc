#include "distbelief/mesh/allreduce.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "distbelief/base/error.h"
#include "distbelief/base/prefetch.h"
#include "distbelief/mesh/timed.h"

namespace distbelief::mesh {
namespace {

using compute::kBlock;
using compute::Span;
using Clock = std::chrono::steady_clock;

}  // namespace

int AllreduceSharing::norm_rounds(const compute::Optimizer& optimizer, double clip_norm) {
  return (clip_norm > 0 ? 1 : 0) + (dynamic_cast<const compute::LayerwiseOptimizer*>(&optimizer) ? 1 : 0);
}

bool AllreduceSharing::keeps_sums(const Options& options) {
  // With a window, sums are made during backward; only an early update can use them at once.
  const bool wait = options.windowed
                        ? options.overlap != Overlap::kUpdate
                        : options.overlap == Overlap::kReduce || options.overlap == Overlap::kCheck;
  return options.plan->hosts.size() > 1 || wait || norm_rounds(*options.optimizer, options.clip_norm) > 0;
}

AllreduceSharing::AllreduceSharing(Options options)
    : options_(std::move(options)),
      fused_(!keeps_sums(options_)),
      early_update_(options_.overlap == Overlap::kUpdate &&
                    norm_rounds(*options_.optimizer, options_.clip_norm) == 0),
      buckets_(int(options_.layout->buckets().size())),
      update_({.layout = options_.layout,
               .state = options_.state,
               .optimizer = options_.optimizer,
               .carriers = options_.domain->members(),
               .hosts = int(options_.plan->hosts.size()),
               .lr_factors = options_.lr_factors,
               .join_layers = options_.join_layers}),
      share_(slice_share(*options_.plan, options_.host, options_.domain->member())),
      // Waits practically forever: a rest begins when forward begins, and a step may take any time. Carriers
      // that compute watch each other, and the abort record ends this wait.
      resting_waiter_(options_.domain->abort(), std::chrono::hours(24 * 365), std::chrono::nanoseconds(0),
                      options_.domain->rank_of(options_.domain->member())) {
  seen_.resize(options_.layout->entries().size());
  mean_buffers_.resize(options_.buffers);
  lane_samples_.resize(std::size_t(options_.plan->lanes));
  if (options_.windowed)
    make_window();
  else
    stack_.emplace(GradientStack::Options{.layout = options_.layout,
                                          .plan = options_.plan,
                                          .state = options_.state,
                                          .host = options_.host,
                                          .carrier = options_.domain->member(),
                                          .filled = [this](int buckets) { buckets_filled(buckets); }});
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
  update_.begin_step(round_, plan);
  reduced_ = updated_ = 0;
  in_backward_ = true;
  if (options_.exchange) options_.exchange->start_step(round_, step_.step);
  window_ ? window_->begin_step() : stack_->begin_step();
  added_ = 0;
  if (window_) settling_.emplace([this] { return settle(); });
  if (passes_) {
    passes_->begin(passes_of_step_, step_.step);
    has_lanes() ? passes_->skip(skipped_passes_) : passes_->end();
  }
  if (has_lanes()) return;  // otherwise no carrier waits for gradients from this one
  own().ready.raise(window_ ? count_of_items(window_->items()) : count_of(buckets_));
}

void AllreduceSharing::begin_lane(std::int64_t lane) {
  lane_ = lane;
  std::fill(seen_.begin(), seen_.end(), 0);
  window_ ? window_->begin_lane() : stack_->begin_lane(lane);
}

std::span<float> AllreduceSharing::lane_buffers() {
  return {options_.state->lane_buffers(lane_, round_), options_.buffers};
}

void AllreduceSharing::gradient(int parameter, const float* values) {
  seen_[std::size_t(parameter)] = 1;
  options_.state->touched(options_.domain->member(), round_)[parameter] = 1;
  put(parameter, values);
}

void AllreduceSharing::put(int parameter, const float* values) {
  window_ ? window_->put(parameter, values) : stack_->put(parameter, values);
}

void AllreduceSharing::buckets_filled(int buckets) {
  own().ready.raise(count_of(buckets));
  advance_early();
}

// Does the work that is possible during backward.
void AllreduceSharing::advance_early() {
  if (options_.overlap == Overlap::kOff || !in_backward_) return;
  const auto begin = Clock::now();
  advance(Mode::kPoll);
  times_.early += Clock::now() - begin;
}

// Goes in the order of buckets, so that no gradient has to be set aside.
void AllreduceSharing::end_lane() {
  for (std::size_t p = seen_.size(); p-- > 0;)
    if (!seen_[p]) put(int(p), nullptr);
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
  restore_poisoned();
  settling_.reset();
  if (!fused_ && several_hosts())
    enter_host(&HostSignals::exchanged, count_of(buckets_), "exchange gradients", Mode::kBlock);
  if (options_.clip_norm > 0) {
    update_.measure_gradients(own_sums());
    meet_measures("measure the gradient's norm");
    squared_norms_ = update_.add_up_gradients();
  }
  times_.late += Clock::now() - begin;
}

void AllreduceSharing::finish_step(double squared_norm) {
  const auto begin = Clock::now();
  if (options_.clip_norm > 0) {
    gradient_norm_ = std::sqrt(squared_norm);
    update_.scale_gradients(float(std::min(1.0, options_.clip_norm / (gradient_norm_ + 1e-6))));
  }
  if (update_.is_layerwise()) {
    update_.measure_layers(own_sums());
    meet_measures("measure the layers' norms");
    update_.add_up_layers();
  }
  for (; !fused_ && updated_ < buckets_; ++updated_) {
    update_bucket(updated_);
    own().updated.raise(count_of(updated_ + 1));
  }
  if (several_hosts())
    enter_host(&HostSignals::published, count_of(buckets_), "publish parameters", Mode::kBlock);
  if (!several_hosts() || passes_)
    enter(&CarrierSignals::updated, count_of(buckets_), "update parameters", Mode::kBlock);
  if (options_.exchange) options_.exchange->finish_step();
  update_.end_step();
  average_buffers();
  times_.late += Clock::now() - begin;
}

// Handles the buckets that are ready, in order; with kBlock, all buckets.
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
    if (options_.overlap == Overlap::kCheck) poison(reduced_);
    own().reduced.raise(count_of(reduced_ + 1));
  }
  update_early(buckets_, mode);
}

// With several hosts: updates the buckets that are summed over all hosts during backward.
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
  // The exchange has its own deadlines and knows which host is silent.
  const comm::Waiter& waiter = has_lanes() ? options_.domain->patient_waiter() : resting_waiter_;
  waiter.wait(awaited, wanted, {.rank = options_.domain->rank_of(0), .operation = what, .step = step_.step});
  return true;
}

void AllreduceSharing::reduce_bucket(int bucket) {
  const Timed timed(times_.updating, options_.observer, "reduce", bucket);
  const Span slice = reduce_slice(bucket);
  const std::size_t begin = options_.layout->buckets()[std::size_t(bucket)].span.begin;
  for (int node = 0; node < stack_->nodes(); ++node)
    for (std::size_t at = slice.begin; at < slice.end; at += kBlock)
      std::memcpy(options_.state->sum(node, bucket) + (at - begin), stack_->sum(node, at),
                  kBlock * sizeof(float));
}

void AllreduceSharing::update_bucket(int bucket) {
  const Timed timed(times_.updating, options_.observer, "update", bucket);
  const SummedSlice slice = own_sum(bucket);
  for (std::size_t at = slice.span.begin; at < slice.span.end; at += kBlock) {
    if (!fused_) {
      update_.update_block(at, slice.sums + (at - slice.span.begin));
      continue;
    }
    if (at + kBlock < slice.span.end) {
      stack_->expect(0, at + kBlock);
      prefetch_for_write(options_.state->parameters() + at + kBlock, kBlock * sizeof(float));
    }
    update_.update_block(at, stack_->sum(0, at));
  }
}

void AllreduceSharing::poison(int bucket) {
  const Span slice = update_slice(bucket);
  float* const values = options_.state->parameters() + slice.begin;
  poisoned_.emplace_back(values, values + slice.size());
  std::fill_n(values, slice.size(), std::numeric_limits<float>::quiet_NaN());
}

// Call when all carriers of the host have handed over their last gradient.
void AllreduceSharing::restore_poisoned() {
  for (std::size_t b = 0; b < poisoned_.size(); ++b)
    std::copy(poisoned_[b].begin(), poisoned_[b].end(),
              options_.state->parameters() + update_slice(int(b)).begin);
  poisoned_.clear();
}

// This carrier's slice of a bucket, with its sum unless sum and update are fused.
SummedSlice AllreduceSharing::own_sum(int bucket) const {
  const Span slice = update_slice(bucket);
  if (fused_) return {slice, nullptr};
  return {slice, sum_of(bucket) + (slice.begin - options_.layout->buckets()[std::size_t(bucket)].span.begin)};
}

std::vector<SummedSlice> AllreduceSharing::own_sums() const {
  std::vector<SummedSlice> slices;
  for (int b = 0; b < buckets_; ++b) slices.push_back(own_sum(b));
  return slices;
}

// Waits until the norms of all carriers, including those of other hosts, are ready.
void AllreduceSharing::meet_measures(const char* what) {
  own().measured.raise(++measures_);
  if (several_hosts())
    enter_host(&HostSignals::measured, measures_, what, Mode::kBlock);
  else
    enter(&CarrierSignals::measured, measures_, what, Mode::kBlock);
}

// Adds in double and in lane order, so the result is the same on every carrier, and equals the lane's own
// buffers when there is one lane.
void AllreduceSharing::average_buffers() {
  if (options_.buffers == 0) return;
  std::vector<double> sums(options_.buffers);
  int lanes = 0;
  const std::vector<Host>& hosts = options_.plan->hosts;
  for (std::int64_t lane = hosts.front().first_lane; lane < hosts.back().end_lane; ++lane) {
    if (lane_samples_[std::size_t(lane)] == 0) continue;
    ++lanes;
    const float* values = options_.state->lane_buffers(lane, round_);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += double(values[i]);
  }
  for (std::size_t i = 0; lanes > 0 && i < sums.size(); ++i) mean_buffers_[i] = float(sums[i] / lanes);
}

}  // namespace distbelief::mesh
