#include "distbelief/data/pipeline/order.h"

#include <algorithm>
#include <optional>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kWindowStream = 0x77696e646f77;  // separates these keys from other uses of the seed

std::uint64_t rounded_up_quotient(std::uint64_t value, std::uint64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

// The share of lane `index` when `count` items are divided over `lanes` in order.
Range share_of(std::uint64_t count, std::uint64_t lanes, std::uint64_t index) {
  const std::uint64_t share = count / lanes, larger = count % lanes;
  const std::uint64_t begin = index * share + std::min(index, larger);
  return {begin, begin + share + (index < larger ? 1 : 0)};
}

// Run length: at most half a lane's window, so that a window mixes several runs; whole slices, at least one.
std::uint64_t run_samples(const Order::Options& options) {
  const Locality& locality = options.locality;
  if (locality.slice == 0) return 1;
  const std::uint64_t slices = locality.window / options.plan.lanes / locality.slice / 2;
  return locality.slice * std::clamp<std::uint64_t>(slices, 1, std::max<std::uint64_t>(1, locality.run));
}

}  // namespace

Order::Order(const Options& options, std::uint64_t epoch)
    : options_(options),
      epoch_(epoch),
      run_(run_samples(options)),
      window_(std::max<std::uint64_t>(
          1, options.locality.window / std::max<std::uint64_t>(1, options.plan.lanes))),
      permutation_(rounded_up_quotient(options.plan.samples, run_), options.seed, epoch) {
  if (!is_local() || options.plan.samples == 0) return;
  const std::uint64_t runs = permutation_.size();
  short_at_ = permutation_.index_of(runs - 1);
  missing_ = runs * run_ - options.plan.samples;
}

Order::Order(const Permutation& permutation)
    : options_{.plan = {permutation.size(), permutation.size(), 1}, .locality = {}},
      epoch_(0),
      run_(1),
      window_(1),
      permutation_(permutation) {}

std::uint64_t Order::operator()(std::uint64_t position) const {
  std::uint64_t sample = 0;
  list({position, position + 1}, &sample);
  return sample;
}

void Order::list(Range positions, std::uint64_t* samples) const {
  DISTBELIEF_INVARIANT(positions.end <= size());
  if (!is_local()) {
    for (std::uint64_t at = positions.begin; at < positions.end; ++at) *samples++ = permutation_(at);
    return;
  }
  std::optional<Permutation> within;  // the window of the previous sample
  std::uint64_t within_lane = 0, within_window = 0;
  for (std::uint64_t at = positions.begin; at < positions.end; ++at) {
    const InLane place = in_lane(at);
    const std::uint64_t number = place.number / window_;
    if (!within || place.lane != within_lane || number != within_window) {
      within = window(place.lane, number);
      within_lane = place.lane;
      within_window = number;
    }
    const std::uint64_t begin = number * window_;
    *samples++ = sample_at(lane(place.lane).begin + begin + (*within)(place.number - begin));
  }
}

Order::Lane Order::lane(std::uint64_t index) const {
  const EpochPlan& plan = options_.plan;
  const std::uint64_t full_steps = plan.samples / plan.batch;
  const Range full = share_of(plan.batch, plan.lanes, index);
  const Range rest = share_of(plan.samples % plan.batch, plan.lanes, index);
  return {full_steps * full.begin + rest.begin, full_steps * full.size() + rest.size(), full.size()};
}

Order::InLane Order::in_lane(std::uint64_t position) const {
  const EpochPlan& plan = options_.plan;
  const std::uint64_t step = position / plan.batch;
  const Range all = plan.step_range(step);
  const std::uint64_t share = all.size() / plan.lanes, larger = all.size() % plan.lanes;
  std::uint64_t within = position - all.begin;
  std::uint64_t index = 0;
  if (within < larger * (share + 1)) {
    index = within / (share + 1);
    within %= share + 1;
  } else {
    within -= larger * (share + 1);
    index = larger + within / share;
    within %= share;
  }
  return {index, step * lane(index).per_step + within};
}

Permutation Order::window(std::uint64_t lane_index, std::uint64_t number) const {
  const std::uint64_t size = std::min(window_, lane(lane_index).samples - number * window_);
  return {size, derive_seed({options_.seed, kWindowStream, lane_index, number}), epoch_};
}

std::uint64_t Order::sample_at(std::uint64_t base) const {
  const std::uint64_t short_begin = short_at_ * run_;
  if (base >= short_begin + run_ - missing_) base += missing_;
  return permutation_(base / run_) * run_ + base % run_;
}

void Order::announce_part(const Source& source, std::uint64_t lane_index, Range numbers) const {
  const std::uint64_t begin = lane(lane_index).begin;
  for (std::uint64_t at = begin + numbers.begin; at < begin + numbers.end;) {
    const std::uint64_t sample = sample_at(at);
    const std::uint64_t run_begin = sample / run_ * run_;
    const std::uint64_t run_end = std::min(run_begin + run_, size());
    source.announce({run_begin, run_end});
    at += run_end - sample;
  }
}

void Order::announce(const Source& source, const Moment& moment) const {
  if (!is_local()) return;
  const Lane mine = lane(moment.lane);
  const std::uint64_t now = moment.step * mine.per_step;
  const std::uint64_t size = options_.plan.lane_range(moment.step, moment.lane).size();
  const std::uint64_t ahead = std::min(window_, mine.samples);
  const std::uint64_t begin = moment.first ? now / window_ * window_ : now + ahead;
  const std::uint64_t end = now + size + ahead;
  announce_part(source, moment.lane, {std::min(begin, mine.samples), std::min(end, mine.samples)});
  if (end <= mine.samples) return;
  const Range next{std::max(begin, mine.samples) - mine.samples, std::min(end - mine.samples, mine.samples)};
  if (next.begin < next.end) Order(options_, epoch_ + 1).announce_part(source, moment.lane, next);
}

}  // namespace distbelief::data
