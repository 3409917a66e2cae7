#pragma once

#include <array>
#include <cstdint>

// Assigns samples to batches. All functions are pure: no memory per sample, and any position is available at
// once.
namespace distbelief::data {

// A permutation of [0, size), determined by (seed, epoch): a Feistel network, iterated until the result lies
// inside. `size` is at most 2^62. Cheap to construct, thread-safe.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);
  // An unshuffled order: place b of the batch reads sample b * steps + t in step t, so each place reads
  // neighbouring samples. The samples left over from full batches come last, in their order.
  static Permutation streams(std::uint64_t size, std::uint64_t batch);
  std::uint64_t operator()(std::uint64_t index) const;  // index < size
  std::uint64_t index_of(std::uint64_t value) const;    // the inverse
  std::uint64_t size() const { return size_; }

 private:
  Permutation() = default;
  std::uint64_t size_ = 0;
  std::uint64_t stream_batch_ = 0;  // 0: shuffled
  std::uint64_t rows_ = 1;  // the network permutes rows_ * columns_ positions, slightly more than size_
  std::uint64_t columns_ = 1;
  std::array<std::uint64_t, 4> keys_{};
};

// The arrangement of an epoch: shuffled, or in streams that continue from batch to batch.
enum class Arrangement { kShuffled, kStreams };

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
};

// Divides an epoch of `samples` into steps of `batch` (the last may be shorter and is never dropped), and
// each step into `lanes` in order, with sizes that differ by at most one. A lane of a short last batch may be
// empty.
struct EpochPlan {
  std::uint64_t samples = 0;
  std::uint64_t batch = 0;
  std::uint64_t lanes = 1;

  std::uint64_t steps() const;
  Range step_range(std::uint64_t step) const;                      // positions in the epoch's order
  Range lane_range(std::uint64_t step, std::uint64_t lane) const;  // part of step_range
};

// Describes how samples are grouped in storage, when reading one also loads its neighbours.
struct Locality {
  std::uint64_t slice = 0;   // samples loaded together, aligned to a multiple of it; 0: each alone
  std::uint64_t run = 1;     // neighbouring slices per transfer, at most
  std::uint64_t window = 0;  // samples that the source can hold for shuffling, over all lanes
};

}  // namespace distbelief::data
