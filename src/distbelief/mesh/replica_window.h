#pragma once

#include <cstdint>
#include <span>

#include "distbelief/comm/host/communicator.h"
#include "distbelief/mesh/stage.h"

namespace distbelief::mesh {

// Memory that the workers of a replica share when it trains with parameter servers. Workers of a network that
// is cut over them assemble it here for the one worker that talks to the servers; that worker leaves the
// answers here. All workers are on one host. Only meet() synchronizes access.
class ReplicaWindow {
 public:
  struct Shape {
    int workers = 1;
    std::size_t parameters = 0;   // of the whole network
    std::size_t elements = 0;     // elements of its arena; 0: every worker has the whole network
    std::size_t lane_values = 0;  // values that each lane hands to all workers
    std::size_t note_values = 0;  // the last lane_values that are notes
    std::int64_t lanes = 0;       // lanes whose values are assembled here; 0: none
    std::size_t slices = 0;       // slices of the arena on servers
  };
  static std::size_t bytes_needed(const Shape& shape);
  // Collective over the workers of `host`. The memory starts as zeros.
  ReplicaWindow(comm::HostCommunicator& host, const Shape& shape);

  // Barrier over all workers of the replica; earlier writes of each are then visible to all. Has no deadline,
  // because a worker may take any time; when a worker dies, the abort record or the launcher ends the wait.
  void meet();

  std::int64_t& step() { return *reinterpret_cast<std::int64_t*>(at(kStep)); }
  // The version that each worker's link fetched when it joined, and the servers' answer for each slice.
  std::span<std::int64_t> versions() {
    return {reinterpret_cast<std::int64_t*>(at(kVersions)), std::size_t(shape_.workers)};
  }
  std::span<std::int64_t> answers() { return {reinterpret_cast<std::int64_t*>(at(kAnswers)), shape_.slices}; }
  // Per parameter of the whole network: whether it has a gradient in this step.
  std::span<std::uint8_t> touched() {
    return {reinterpret_cast<std::uint8_t*>(at(kTouched)), shape_.parameters};
  }
  std::span<float> mean() { return {floats(kMean), shape_.lane_values}; }
  std::span<float> gradient() { return {floats(kGradient), shape_.elements}; }
  std::span<float> parameters() { return {floats(kParameters), shape_.elements}; }
  // Lane values of the replica's lanes, counted from its first.
  std::span<float> rows() { return {floats(kRows), std::size_t(shape_.lanes) * shape_.lane_values}; }
  std::span<float> row(std::int64_t lane) {
    return rows().subspan(std::size_t(lane) * shape_.lane_values, shape_.lane_values);
  }
  // A worker's own notes of a lane; every worker with a part of the network has notes of each lane.
  std::span<float> notes(int worker, std::int64_t lane) {
    const auto place = std::size_t(worker) * std::size_t(shape_.lanes) + std::size_t(lane);
    return {floats(kNotes) + place * shape_.note_values, shape_.note_values};
  }

 private:
  enum Section {
    kSignals,
    kStep,
    kVersions,
    kAnswers,
    kTouched,
    kMean,
    kGradient,
    kParameters,
    kRows,
    kNotes,
    kSections
  };
  static std::size_t bytes_of(const Shape& shape, int section);
  static std::size_t offset_of(const Shape& shape, int section);
  std::byte* at(Section section) const { return segment_.data() + offset_of(shape_, section); }
  float* floats(Section section) const { return reinterpret_cast<float*>(at(section)); }
  comm::Signal& signal(int worker) const { return reinterpret_cast<comm::Signal*>(at(kSignals))[worker]; }

  comm::HostCommunicator& host_;
  Shape shape_;
  comm::SharedSegment segment_;
  std::uint32_t meetings_ = 0;
};

// The shape of the window for a network that is cut over `workers` workers.
ReplicaWindow::Shape window_shape(const NetworkOutline& outline, int workers, std::int64_t lanes);

}  // namespace distbelief::mesh
