#pragma once

#include <array>
#include <cstdint>

// Which samples make which batch. Everything here is a pure function of its arguments: no memory per
// sample, and any position can be reached at once.
namespace distbelief::data {

// A permutation of [0, size) fixed by (seed, epoch): a Feistel network walked until it lands inside.
// size is at most 2^62. Cheap to make, and safe to use from any number of threads.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);
  // Not shuffled: step t of place b of a batch reads sample b * steps + t, so each place reads a run of
  // neighbouring samples. What no full batch is left for comes last, as it is.
  static Permutation streams(std::uint64_t size, std::uint64_t batch);
  std::uint64_t operator()(std::uint64_t index) const;  // index < size
  std::uint64_t index_of(std::uint64_t value) const;    // the other way round
  std::uint64_t size() const { return size_; }

 private:
  Permutation() = default;
  std::uint64_t size_ = 0;
  std::uint64_t stream_batch_ = 0;  // 0: shuffled
  std::uint64_t rows_ = 1;          // the network works on rows_ * columns_ positions, hardly more than size_
  std::uint64_t columns_ = 1;
  std::array<std::uint64_t, 4> keys_{};
};

// How the samples of an epoch are arranged: shuffled, or in streams that go on from batch to batch.
enum class Arrangement { kShuffled, kStreams };

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
};

// How an epoch of `samples` is cut: steps of `batch` (the last may be shorter, never dropped), each cut
// over `lanes` in order, sizes differing by at most one; a lane of a short last batch may be empty.
struct EpochPlan {
  std::uint64_t samples = 0;
  std::uint64_t batch = 0;
  std::uint64_t lanes = 1;

  std::uint64_t steps() const;
  Range step_range(std::uint64_t step) const;                      // positions in the epoch's order
  Range lane_range(std::uint64_t step, std::uint64_t lane) const;  // part of step_range
};

// How a source's samples lie together, when reading one brings its neighbours along.
struct Locality {
  std::uint64_t slice = 0;   // samples that come together, from a multiple of it on; 0: each comes alone
  std::uint64_t run = 1;     // neighbouring slices that one transfer may bring
  std::uint64_t window = 0;  // samples that the source can hold to be shuffled, of all lanes together
};

}  // namespace distbelief::data
