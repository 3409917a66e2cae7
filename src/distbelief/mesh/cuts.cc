#include "distbelief/mesh/cuts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "distbelief/base/error.h"

namespace distbelief::mesh {
namespace {

constexpr double kNothingFits = std::numeric_limits<double>::infinity();
constexpr double kSame = 1 + 1e-9;  // smaller differences are rounding errors of sums

std::string bytes_text(double bytes) {
  if (bytes >= 1 << 30) return fmt::format("{:.2f} GiB", bytes / (1 << 30));
  if (bytes >= 1 << 20) return fmt::format("{:.1f} MiB", bytes / (1 << 20));
  return fmt::format("{:.0f} bytes", bytes);
}

// "block 3" or "blocks 3 to 5"
std::string blocks_text(int first, int end) {
  return end - first == 1 ? fmt::format("block {}", first) : fmt::format("blocks {} to {}", first, end - 1);
}

// Sums over any blocks [first, end) in constant time.
class Runs {
 public:
  Runs(std::span<const BlockCost> blocks, const CutLimits& limits) : blocks_(blocks), limits_(limits) {
    for (const BlockCost& block : blocks) {
      DISTBELIEF_INVARIANT(block.forward_seconds >= 0 && block.backward_seconds >= 0);
      seconds_.push_back(seconds_.back() + block.forward_seconds + block.backward_seconds);
      parameters_.push_back(parameters_.back() + block.parameter_bytes);
      activations_.push_back(activations_.back() + block.activation_bytes);
    }
  }

  int size() const { return int(blocks_.size()); }
  const CutLimits& limits() const { return limits_; }
  double seconds(int first, int end) const {
    return seconds_[std::size_t(end)] - seconds_[std::size_t(first)];
  }
  double bytes(int first, int end) const {
    const auto parameters = parameters_[std::size_t(end)] - parameters_[std::size_t(first)];
    const auto activations = activations_[std::size_t(end)] - activations_[std::size_t(first)];
    return double(parameters) * limits_.bytes_per_parameter_byte +
           double(activations) * double(limits_.lanes_alive);
  }
  bool fits(int first, int end) const {
    return limits_.memory_bytes == 0 || bytes(first, end) <= double(limits_.memory_bytes);
  }
  // Bytes that a stage ending here sends on.
  std::size_t sent(int end) const { return end == size() ? 0 : blocks_[std::size_t(end) - 1].output_bytes; }

 private:
  std::span<const BlockCost> blocks_;
  CutLimits limits_;
  std::vector<double> seconds_{0};
  std::vector<std::size_t> parameters_{0};
  std::vector<std::size_t> activations_{0};
};

// Seconds of the slowest stage of the best cuts, or kNothingFits. After `made` rounds, best[first] is that of
// the blocks from `first` to the end in `made` stages.
double fastest_slowest(const Runs& runs, int stages) {
  const int blocks = runs.size();
  std::vector<double> best(std::size_t(blocks) + 1, kNothingFits);
  best.back() = 0;
  for (int made = 1; made <= stages; ++made) {
    std::vector<double> next(best.size(), kNothingFits);
    for (int first = 0; first < blocks; ++first)
      for (int end = first + 1; end <= blocks && runs.fits(first, end); ++end)
        next[std::size_t(first)] =
            std::min(next[std::size_t(first)], std::max(runs.seconds(first, end), best[std::size_t(end)]));
    best = std::move(next);
  }
  return best[0];
}

// Among the cuts whose stages all take at most `allowed` seconds: the one that sends the fewest bytes, then
// the earliest.
std::vector<int> leanest_cuts(const Runs& runs, int stages, double allowed) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  const int blocks = runs.size();
  // Indexed by the number of stages up to the network's end, then by the first block of these.
  std::vector sent(std::size_t(stages) + 1, std::vector(std::size_t(blocks) + 1, kNone));
  std::vector first_end(sent.size(), std::vector(std::size_t(blocks) + 1, 0));
  sent[0].back() = 0;
  for (std::size_t made = 1; made < sent.size(); ++made)
    for (int first = 0; first < blocks; ++first)
      for (int end = first + 1; end <= blocks; ++end) {
        if (!runs.fits(first, end) || runs.seconds(first, end) > allowed) break;
        const std::size_t after = sent[made - 1][std::size_t(end)];
        if (after == kNone || after + runs.sent(end) >= sent[made][std::size_t(first)]) continue;
        sent[made][std::size_t(first)] = after + runs.sent(end);
        first_end[made][std::size_t(first)] = end;
      }
  std::vector<int> ends;
  for (std::size_t left = std::size_t(stages); left > 0; --left)
    ends.push_back(first_end[left][std::size_t(ends.empty() ? 0 : ends.back())]);
  return ends;
}

Cuts described(const Runs& runs, std::vector<int> ends) {
  Cuts cuts;
  cuts.ends = std::move(ends);
  int slowest = 0;
  int first = 0;
  int slowest_first = 0;
  for (std::size_t stage = 0; stage < cuts.ends.size(); first = cuts.ends[stage++]) {
    const double seconds = runs.seconds(first, cuts.ends[stage]);
    if (stage > 0 && seconds <= cuts.slowest_seconds) continue;
    cuts.slowest_seconds = seconds;
    slowest = int(stage);
    slowest_first = first;
  }
  const double mean = runs.seconds(0, runs.size()) / double(cuts.ends.size());
  if (cuts.slowest_seconds > 0) cuts.balance = std::min(1.0, mean / cuts.slowest_seconds);
  cuts.reason = fmt::format("stage {} ({}) is slowest: {:.3g} ms per lane, balance {:.2f}", slowest,
                            blocks_text(slowest_first, cuts.ends[std::size_t(slowest)]),
                            cuts.slowest_seconds * 1000, cuts.balance);
  return cuts;
}

// No cut helps when a single block exceeds a stage.
void require_blocks_fit(const Runs& runs) {
  for (int block = 0; block < runs.size(); ++block)
    if (!runs.fits(block, block + 1))
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("block {} alone needs {} for its parameters, their state and {} lanes' "
                      "activations, a stage may have {}; no cut helps: give workers more memory, make the "
                      "block smaller, or split it with parallel.tensor",
                      block, bytes_text(runs.bytes(block, block + 1)), runs.limits().lanes_alive,
                      bytes_text(double(runs.limits().memory_bytes))));
}

// Filling each stage as far as possible needs the fewest stages, because a part of blocks that fit fits too.
int fewest_stages(const Runs& runs) {
  int stages = 1;
  for (int first = 0, end = 1; end <= runs.size(); ++end) {
    if (runs.fits(first, end)) continue;
    ++stages;
    first = end - 1;
  }
  return stages;
}

void require_stages_fit(const Runs& runs, std::span<const int> ends) {
  int first = 0;
  for (std::size_t stage = 0; stage < ends.size(); first = ends[stage++]) {
    if (runs.fits(first, ends[stage])) continue;
    const int fewest = fewest_stages(runs);
    const std::string advice = fewest > int(ends.size()) ? fmt::format("take {} stages or more", fewest)
                                                         : "other cuts would fit: leave parallel.cuts out";
    throw Error(ErrorCode::kBadInput,
                fmt::format("stage {} of {} ({}) needs {}, a stage may have {}; {}", stage, ends.size(),
                            blocks_text(first, ends[stage]), bytes_text(runs.bytes(first, ends[stage])),
                            bytes_text(double(runs.limits().memory_bytes)), advice));
  }
}

void require_enough_blocks(std::span<const BlockCost> blocks, int stages) {
  if (stages < 1)
    throw Error(ErrorCode::kBadInput, fmt::format("a pipeline wants 1 or more stages; found {}", stages));
  if (blocks.empty()) throw Error(ErrorCode::kBadInput, "a network without blocks cannot be cut into stages");
  if (blocks.size() < std::size_t(stages))
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{0} stages want {0} blocks or more, the network has {1}; take {2}", stages,
                    blocks.size(),
                    blocks.size() == 1 ? "1 stage" : fmt::format("{} stages or fewer", blocks.size())));
}

void require_cuts_of_network(std::span<const int> firsts, int blocks, int stages) {
  const std::string key = "parallel.cuts";
  const std::string given = fmt::format("{} = [{}]", key, fmt::join(firsts, ", "));
  if (firsts.size() + 1 != std::size_t(stages))
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} makes {} stages, the pipeline has {}; give {} numbers, the first block of each "
                    "stage but the first",
                    given, firsts.size() + 1, stages, stages - 1),
        {.key = key});
  int before = 0;
  for (const int first : firsts) {
    if (first < 1 || first >= blocks)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{0}: {1} is not the first block of a later stage; the "
                              "network has blocks 0 to {2}, take 1 to {2}",
                              given, first, blocks - 1),
                  {.key = key});
    if (first <= before)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{}: {} follows {}; each number must be larger than the one before", given,
                              first, before),
                  {.key = key});
    before = first;
  }
}

}  // namespace

double stage_bytes(std::span<const BlockCost> blocks, const CutLimits& limits) {
  return Runs(blocks, limits).bytes(0, int(blocks.size()));
}

Cuts choose_cuts(std::span<const BlockCost> blocks, int stages, const CutLimits& limits) {
  require_enough_blocks(blocks, stages);
  const Runs runs(blocks, limits);
  require_blocks_fit(runs);
  if (fewest_stages(runs) > stages) {
    // The error names a stage of the cuts that time alone would choose; at least one of them is too large.
    const Runs unlimited(blocks, CutLimits{});
    require_stages_fit(runs, leanest_cuts(unlimited, stages, fastest_slowest(unlimited, stages) * kSame));
  }
  const double slowest = fastest_slowest(runs, stages);
  DISTBELIEF_INVARIANT(slowest < kNothingFits);
  return described(runs, leanest_cuts(runs, stages, slowest * kSame));
}

Cuts given_cuts(std::span<const int> firsts, std::span<const BlockCost> blocks, int stages,
                const CutLimits& limits) {
  require_enough_blocks(blocks, stages);
  require_cuts_of_network(firsts, int(blocks.size()), stages);
  std::vector<int> ends(firsts.begin(), firsts.end());
  ends.push_back(int(blocks.size()));
  const Runs runs(blocks, limits);
  require_blocks_fit(runs);
  require_stages_fit(runs, ends);
  return described(runs, std::move(ends));
}

}  // namespace distbelief::mesh
