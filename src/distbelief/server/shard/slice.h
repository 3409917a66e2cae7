#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "distbelief/compute/layout.h"
#include "distbelief/compute/optimizer.h"
#include "distbelief/compute/vector_slice.h"
#include "distbelief/server/scheduler/ticket_set.h"
#include "distbelief/server/service/budget.h"
#include "distbelief/server/shard/update_log.h"

namespace distbelief::server {

// A gradient of one slice, to be applied.
struct Gradient {
  std::int64_t ticket = 0;
  std::int32_t replica = 0;
  std::int64_t base = 0;  // version from which it was computed
  double lr = 0;
  std::span<const std::int32_t> untouched{};  // parameters without a gradient
  const float* values = nullptr;
  std::span<const std::int32_t> of{};  // replicas whose sum it is (sync)
  bool is_final = false;               // already compensated for delay, by the primary
};

// One slice of a job's parameters with the state of their update rule; it is updated as a whole. Updates take
// effect one after another, in the order in which they get the slice's lock; each makes the next version and
// is logged under it. A ticket counts once. Memory is allocated with the first values or by install();
// updates before that throw Error(kUnavailable). Thread safe; functions block only for each other.
class Slice {
 public:
  struct Options {
    std::int64_t number = 0;
    compute::Span span{};                      // of the arena
    std::vector<compute::Segment> segments{};  // the parameters, or their stretches, in the slice
    const compute::Optimizer* rule = nullptr;
    double compensation = 0;       // of delay; if not 0, a copy of each replica's values is kept
    bool staleness_aware = false;  // the learning rate is divided by the delay
    bool keeps_previous = false;   // the values before the last update stay readable
    std::optional<compute::VectorSlice::Options> vectors{};  // vectors besides the values (sandblaster)
    UpdateLog* log = nullptr;                                // may be null
    // Counts the replicas' copies, and sums of portions beyond PortionSum::kSpare; may be null.
    Budget* budget = nullptr;
  };
  explicit Slice(Options options);

  struct Applied {
    bool repeated = false;             // the ticket was in already; nothing has changed
    std::int64_t version = 0;          // afterwards
    double lr = 0;                     // the rate used
    const float* direction = nullptr;  // the applied gradient; a compensated one is valid until the next call
  };
  // `values` gets the new parameters, unless null.
  Applied apply(const Gradient& gradient, float* values);
  // A portion of an evaluation, or a command (slice_vectors.cc); each new one makes the next version. They
  // throw Error(kBadInput) before anything has changed. Only for a slice that has vectors.
  Applied add(std::int64_t ticket, std::int32_t replica, const compute::VectorSlice::Portion& portion);
  struct Ran {
    bool repeated = false;
    std::int64_t version = 0;
    std::vector<double> numbers{};
  };
  Ran run(std::int64_t sequence, std::span<const Operation> operations);
  // Reserves room for this replica's copy, where copies are kept. Returns false when there is none.
  bool reserve_copy(std::int32_t replica);
  // Reads the values, unless null, and returns the version; nothing when the slice has no values (any more).
  std::optional<std::int64_t> read(std::int32_t replica, float* values);
  // Reads the values of a version: the present one, or the one before when that is kept. Returns false when
  // it is gone.
  bool read_version(std::int64_t version, float* values);
  std::int64_t version();
  bool has(std::int64_t ticket);
  bool has_portion(std::int64_t evaluation, std::int64_t portion);
  // Reserves room for a new portion until its siblings have come. Returns false when there is none.
  bool reserve_sum(std::int64_t evaluation, std::int64_t portion);
  // Whether another ticket fits into the set of finished tickets.
  bool has_room_for(std::int64_t ticket);
  // Drops this replica's copy.
  void forget(std::int32_t replica);
  // Sets the first values. Returns false when there are some already.
  bool fill(const float* values);
  bool is_filled();

  // The whole state, for another server to continue from.
  struct State {
    std::int64_t version = 0;
    bool filled = false;
    std::vector<std::int64_t> counts{};
    std::int64_t tickets_below = 0;
    std::vector<std::int64_t> tickets_above{};  // as TicketSet::ranges() returns them
    std::vector<std::vector<float>> arrays{};   // the values, then the rule's
  };
  State state();
  void install(State state);
  // Empties the slice and frees its memory.
  void forget();
  std::size_t arrays() const { return 1 + states_.size(); }  // of a state, at least
  std::size_t most_arrays() const;

  std::size_t size() const { return options_.span.size(); }
  std::size_t segments() const { return options_.segments.size(); }
  std::int64_t number() const { return options_.number; }
  const compute::Span& span() const { return options_.span; }

 private:
  void require_values() const;
  const float* compensated(const Gradient& gradient);
  void note_values_of(std::int32_t replica);
  void drop_copies();
  void add_vectors(State& state) const;
  void take_vectors(State& state);
  void count_sums();

  Options options_;
  std::mutex mutex_;
  std::vector<float> values_;
  std::vector<float> previous_;  // when kept
  std::vector<std::vector<float>> states_;
  std::vector<std::int64_t> counts_;  // of updates, per segment
  std::optional<compute::VectorSlice> vectors_;
  std::size_t counted_sums_ = 0;  // of portions, in the budget
  std::int64_t version_ = 0;
  bool filled_ = false;
  TicketSet tickets_;
  std::vector<float> scratch_;                            // a compensated gradient
  std::map<std::int32_t, std::vector<float>> values_of_;  // what each replica read last (compensation)
};

// Whether all are finite.
bool are_finite(std::span<const float> values);
// Whether an update rule can go by them: so far from the largest float that squares, and sums of these, are
// finite too. A sum of Adagrad that is not would end all updates of its parameter.
inline constexpr float kMostMagnitude = 1e15F;
bool are_moderate(std::span<const float> values);
// Whether parameters stay finite under updates by it.
inline constexpr double kMostRate = 1e6;
inline bool is_usable_rate(double lr) { return std::abs(lr) <= kMostRate; }

}  // namespace distbelief::server
