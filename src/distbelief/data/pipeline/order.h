#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/data/pipeline/sampling.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

// Which sample stands at which position of an epoch: a pure function of (plan, locality, seed, epoch), with
// no memory per sample, so any position is reached at once and workers agree without talking.
//
// Without locality it is Permutation(samples, seed, epoch). With it, two levels, so that a bounded cache of
// slices suffices: runs of neighbouring slices are permuted; each lane gets its own stretch of the samples
// in that order; a lane's stretch is cut into windows, and the samples of a window are permuted. A worker so
// reads the slices of its own lanes alone, and a global batch mixes as many windows as there are lanes.
//
// Cheap to make, immutable, safe to use from any number of threads.
class Order {
 public:
  struct Options {
    EpochPlan plan;
    Locality locality;
    std::uint64_t seed = 0;
  };
  Order(const Options& options, std::uint64_t epoch);
  // One lane, no locality.
  Order(const Permutation& permutation);  // NOLINT(google-explicit-constructor): it is the same thing

  std::uint64_t size() const { return options_.plan.samples; }
  std::uint64_t operator()(std::uint64_t position) const;        // position < size()
  void list(Range positions, std::uint64_t* samples) const;      // the same of many at once
  bool is_local() const { return options_.locality.slice > 0; }  // slices matter

  // Tells the source what the lane needs one window after this step; in a loader's first step also what it
  // needs until then, which nobody has told. Nothing when the order is not local.
  struct Moment {
    std::uint64_t step = 0;
    std::uint64_t lane = 0;
    bool first = false;
  };
  void announce(const Source& source, const Moment& moment) const;

 private:
  // One lane's part of the epoch; its samples are counted from 0.
  struct Lane {
    std::uint64_t begin = 0;     // in the order of runs
    std::uint64_t samples = 0;   // in the epoch
    std::uint64_t per_step = 0;  // of all steps but a short last one
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
  std::uint64_t run_;           // samples of a run
  std::uint64_t window_;        // samples of a lane's window
  Permutation permutation_;     // of runs, or of samples when the order is not local
  std::uint64_t short_at_ = 0;  // where in that order the last run is, which may be short
  std::uint64_t missing_ = 0;   // samples that it lacks
};

}  // namespace distbelief::data
