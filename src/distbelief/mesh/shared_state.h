#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "distbelief/comm/host/domain.h"
#include "distbelief/compute/layout.h"
#include "distbelief/mesh/lane_plan.h"

namespace distbelief::mesh {

// What one carrier tells the others of its host; each counts buckets over the whole run.
struct CarrierSignals {
  comm::Signal ready;     // my gradients are in the window
  comm::Signal consumed;  // what I own of them is added up (counts items of the window)
  comm::Signal reduced;   // my slice of the host's sum is there
  comm::Signal measured;  // my slices' norms are there (counts rounds of norms)
  comm::Signal used;      // I have used the blocks up to this one (counts places of laps; BlockPasses)
  comm::Signal updated;   // my slice of the parameters is new
};

// What a host's exchange with the other hosts tells its carriers.
struct HostSignals {
  comm::Signal exchanged;  // the world's sum of this host's chunk is there
  comm::Signal measured;   // all hosts' norms are there (counts norm rounds)
  comm::Signal gathered;   // the blocks up to this one are there, from all hosts (counts places of laps)
  comm::Signal published;  // all hosts' parameters are there
};

// The memory that the carriers of one host share: parameters, optimizer state and the sums once per
// host, gradients once per carrier. It is one segment; this class knows where everything lies in it.
// Pages nobody touches cost nothing, so a host that updates only its chunk holds only that state.
class SharedState {
 public:
  struct Shape {
    const compute::Layout* layout = nullptr;
    const LanePlan* plan = nullptr;
    int host = 0;
    int states = 0;             // optimizer arrays
    std::size_t buffers = 0;    // floats of running statistics
    bool keeps_sums = false;    // reduced gradients are kept (norms, several hosts), not consumed at once
    bool states_apart = false;  // the optimizer's arrays are a segment of their own
    bool windowed = false;      // gradients pass through a window; the plan deals lanes in rounds
  };
  enum class Parameters { kWhole, kOwn };  // that a host keeps
  // Slots of the window of a carrier, and of the sums that wait for the exchange between hosts: one is
  // filled while others are read.
  static constexpr int kWindowSlots = 2;
  static constexpr int kSumSlots = 3;

  static std::size_t bytes_needed(const Shape& shape);
  // What of these is used where hosts share the work: `own` of the arrays that others keep too, and all else.
  static std::vector<comm::ByteRange> bytes_used(const Shape& shape, const std::vector<compute::Span>& own,
                                                 Parameters parameters);
  // Partial sums that the owners of slices keep from round to round.
  static int partial_sums(const Shape& shape);
  // `states`: the optimizer's arrays, where they are apart.
  SharedState(const Shape& shape, comm::SharedSegment segment, comm::SharedSegment states = {});
  static std::size_t state_bytes(const Shape& shape);

  std::byte* domain() const { return segment_.data() + domain_; }
  CarrierSignals& carrier(int local) const;
  HostSignals& host() const;
  float* parameters() const { return floats(parameters_); }
  // Copies parameters without mapping them (SharedSegment::read).
  void read_parameters(compute::Span span, float* into) const;
  float* state(int index) const;
  // Gives the memory of parameters or state back; they read as zero. On page boundaries, as blocks are.
  static void forget(float* array, compute::Span span);
  float* gradients(int local_carrier, int slot) const;
  float* window(int local_carrier, std::int64_t item) const;
  float* partial(int level) const { return floats(partials_) + std::size_t(level) * padded_; }
  float* sum(int node, int bucket) const;  // of that bucket's first element
  float* world_sum() const { return floats(world_sum_); }
  double* norms(int which) const;  // per segment: 0 gradients, 1 parameters, 2 directions
  // Which parameters got a gradient from a carrier; two sets take turns by step.
  std::uint8_t* touched(int local_carrier, std::int64_t step) const;
  std::uint8_t* host_touched(std::int64_t step) const;  // of all other hosts
  float* lane_buffers(std::int64_t lane, std::int64_t step) const;
  std::size_t bytes() const { return segment_.size(); }

 private:
  struct Places;
  static Places places(const Shape& shape);
  float* floats(std::size_t place) const { return reinterpret_cast<float*>(segment_.data() + place); }

  Shape shape_;
  comm::SharedSegment segment_;
  comm::SharedSegment states_apart_;
  std::size_t padded_ = 0;
  std::size_t domain_ = 0, signals_ = 0, host_signals_ = 0, touched_ = 0, norms_ = 0, buffers_ = 0;
  std::size_t parameters_ = 0, states_ = 0, sums_ = 0, world_sum_ = 0, partials_ = 0;
  std::size_t largest_bucket_ = 0;
  std::vector<std::size_t> gradients_;  // per local carrier
};

}  // namespace distbelief::mesh
