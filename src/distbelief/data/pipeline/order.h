#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/data/pipeline/sampling.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

// Maps the positions of an epoch to samples: a pure function of (plan, locality, seed, epoch) without memory
// per sample, so any position is available at once and workers agree without communication.
//
// Without locality it is Permutation(samples, seed, epoch). With locality it has two levels, so that a
// bounded cache of slices suffices: runs of neighbouring slices are permuted; each lane gets a contiguous
// part of the samples in that order; the part is cut into windows, and the samples of each window are
// permuted. A worker thus reads only the slices of its own lanes, and a global batch mixes as many windows as
// there are lanes.
//
// Cheap to construct, immutable, thread-safe.
class Order {
 public:
  struct Options {
    EpochPlan plan;
    Locality locality;
    std::uint64_t seed = 0;
  };
  Order(const Options& options, std::uint64_t epoch);
  // An order of one lane without locality.
  Order(const Permutation& permutation);  // NOLINT(google-explicit-constructor): it is the same thing

  std::uint64_t size() const { return options_.plan.samples; }
  std::uint64_t operator()(std::uint64_t position) const;        // position < size()
  void list(Range positions, std::uint64_t* samples) const;      // the same for many positions
  bool is_local() const { return options_.locality.slice > 0; }  // slices matter

  // Announces to the source the samples that the lane needs one window after this step. A loader's first step
  // also announces the samples up to there. Does nothing when the order is not local.
  struct Moment {
    std::uint64_t step = 0;
    std::uint64_t lane = 0;
    bool first = false;
  };
  void announce(const Source& source, const Moment& moment) const;

 private:
  // The part of the epoch that one lane reads; its samples are counted from 0.
  struct Lane {
    std::uint64_t begin = 0;     // position in the order of runs
    std::uint64_t samples = 0;   // samples in the epoch
    std::uint64_t per_step = 0;  // in every step except a short last one
  };
  struct InLane {
    std::uint64_t lane = 0;
    std::uint64_t number = 0;
  };
  Lane lane(std::uint64_t index) const;
  InLane in_lane(std::uint64_t position) const;
  Permutation window(std::uint64_t lane, std::uint64_t number) const;
  std::uint64_t sample_at(std::uint64_t base) const;
  void announce_part(const Source& source, std::uint64_t lane, Range numbers) const;

  Options options_;
  std::uint64_t epoch_;
  std::uint64_t run_;           // samples per run
  std::uint64_t window_;        // samples per window of a lane
  Permutation permutation_;     // order of runs; order of samples when not local
  std::uint64_t short_at_ = 0;  // position of the last run, which may be short
  std::uint64_t missing_ = 0;   // samples missing from that run
};

}  // namespace distbelief::data
