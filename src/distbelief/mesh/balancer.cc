#include "distbelief/mesh/balancer.h"

#include <algorithm>

namespace distbelief::mesh {
namespace {

constexpr std::size_t kLongestWindow = 1024;
constexpr double kWorthwhile = 0.1;  // share of the step's time that justifies a move
constexpr double kStraggler = 1.5;   // a worker is a straggler from this multiple of the median on
constexpr double kNoLonger = 1.25;   // and stays one down to this multiple

}  // namespace

std::vector<double> Balancer::seconds_per_lane(const std::vector<std::int64_t>& lanes) {
  const auto middle = busy_.begin() + std::ptrdiff_t(busy_.size() / 2);
  std::nth_element(busy_.begin(), middle, busy_.end());
  std::vector<double> all(lanes.size());
  const auto own = std::size_t(world_.rank());
  if (lanes[own] > 0) all[own] = *middle / double(lanes[own]);
  busy_.clear();
  world_.communicator().allreduce(comm::view(all.data(), all.size()), comm::ReduceOp::kSum);
  return all;
}

void Balancer::judge(const Rebalance& found) {
  const bool known = straggler_ && straggler_->slowest == found.slowest;
  const bool slow = found.slowness >= (known ? kNoLonger : kStraggler);
  straggler_ = slow && suspect_ == found.slowest ? std::optional(found) : std::nullopt;
  suspect_ = slow ? found.slowest : -1;
}

std::optional<Rebalance> Balancer::after_step(double busy_seconds, const std::vector<std::int64_t>& lanes) {
  busy_.push_back(busy_seconds);
  if (busy_.size() < window_) return std::nullopt;
  Rebalance found = rebalance_lanes(lanes, seconds_per_lane(lanes), options_.least);
  judge(found);
  if (!options_.moves_lanes) return std::nullopt;
  const bool confirmed = seen_once_;
  seen_once_ = found.gain >= kWorthwhile;
  if (!seen_once_ || !confirmed) return std::nullopt;
  seen_once_ = false;
  window_ = std::min(2 * window_, kLongestWindow);
  return found;
}

}  // namespace distbelief::mesh
