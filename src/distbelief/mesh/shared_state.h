#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "distbelief/comm/host/domain.h"
#include "distbelief/compute/layout.h"
#include "distbelief/mesh/lane_plan.h"

namespace distbelief::mesh {

// Signals from one carrier to the others of its host; unless noted, each counts buckets over the whole run.
struct CarrierSignals {
  comm::Signal ready;     // this carrier's gradients are in the window
  comm::Signal consumed;  // it has summed its slices of them (counts items of the window)
  comm::Signal reduced;   // its slice of the host's sum is ready
  comm::Signal measured;  // the norms of its slices are ready (counts rounds of norms)
  comm::Signal used;      // it has used the blocks up to this place (counts places; BlockPasses)
  comm::Signal updated;   // its slice of the parameters is updated
};

// Signals from a host's exchange with the other hosts to its carriers.
struct HostSignals {
  comm::Signal exchanged;  // the world's sum of this host's chunk is ready
  comm::Signal measured;   // the norms of all hosts are ready (counts rounds of norms)
  comm::Signal gathered;   // the blocks up to this place are gathered from all hosts (counts places)
  comm::Signal published;  // the parameters of all hosts are ready
};

// The memory that the carriers of one host share: parameters, optimizer state and sums once per host,
// gradients once per carrier. It is one segment; this class knows its layout. Untouched pages cost nothing,
// so a host that updates only its chunk holds only the state of that chunk.
class SharedState {
 public:
  struct Shape {
    const compute::Layout* layout = nullptr;
    const LanePlan* plan = nullptr;
    int host = 0;
    int states = 0;             // optimizer arrays
    std::size_t buffers = 0;    // floats of running statistics
    bool keeps_sums = false;    // keep reduced gradients (norms, several hosts)
    bool states_apart = false;  // the optimizer's arrays have a segment of their own
    bool windowed = false;      // gradients pass through a window; the plan deals lanes in rounds
  };
  enum class Parameters { kWhole, kOwn };  // the parameters that a host keeps
  // Slots in a carrier's window, and slots of sums that wait for the exchange between hosts: one is filled
  // while others are read.
  static constexpr int kWindowSlots = 2;
  static constexpr int kSumSlots = 3;

  static std::size_t bytes_needed(const Shape& shape);
  // The bytes that this host uses when hosts share the work: only `own` of the arrays that other hosts keep
  // too, and everything else.
  static std::vector<comm::ByteRange> bytes_used(const Shape& shape, const std::vector<compute::Span>& own,
                                                 Parameters parameters);
  // Number of partial sums that the owners of slices keep from round to round.
  static int partial_sums(const Shape& shape);
  // `states`: the optimizer's arrays, if they have their own segment.
  SharedState(const Shape& shape, comm::SharedSegment segment, comm::SharedSegment states = {});
  static std::size_t state_bytes(const Shape& shape);

  std::byte* domain() const { return segment_.data() + domain_; }
  CarrierSignals& carrier(int local) const;
  HostSignals& host() const;
  float* parameters() const { return floats(parameters_); }
  // Copies parameters without mapping them (SharedSegment::read).
  void read_parameters(compute::Span span, float* into) const;
  float* state(int index) const;
  // Frees the memory of parameters or state in a span, which then reads as zero. The span must lie on page
  // boundaries, as blocks do.
  static void forget(float* array, compute::Span span);
  float* gradients(int local_carrier, int slot) const;
  float* window(int local_carrier, std::int64_t item) const;
  float* partial(int level) const { return floats(partials_) + std::size_t(level) * padded_; }
  float* sum(int node, int bucket) const;  // points at the bucket's first element
  float* world_sum() const { return floats(world_sum_); }
  double* norms(int which) const;  // per segment: 0 gradients, 1 parameters, 2 directions
  // Flags of the parameters that got a gradient from a carrier; two sets alternate by step.
  std::uint8_t* touched(int local_carrier, std::int64_t step) const;
  std::uint8_t* host_touched(std::int64_t step) const;  // the same for all other hosts
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
