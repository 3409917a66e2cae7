#pragma once

#include <cstdint>
#include <span>

#include "distbelief/comm/host/communicator.h"
#include "distbelief/mesh/stage.h"

namespace distbelief::mesh {

// Memory that the workers of a replica with parameter servers share: where they put together a network that
// is cut over them, for the one of them who talks to the servers, and where that one leaves what comes back.
// All are on one host. Nothing in it is guarded but by meet().
class ReplicaWindow {
 public:
  struct Shape {
    int workers = 1;
    std::size_t parameters = 0;   // of the whole network
    std::size_t elements = 0;     // of its arena; 0: the workers have it whole already
    std::size_t lane_values = 0;  // that each lane hands to all
    std::size_t note_values = 0;  // the last of them
    std::int64_t lanes = 0;       // whose values are put together here; 0: none
    std::size_t slices = 0;       // of the arena, that servers answer for
  };
  static std::size_t bytes_needed(const Shape& shape);
  // Collective over the workers, which `host` are; zeroed.
  ReplicaWindow(comm::HostCommunicator& host, const Shape& shape);

  // All workers of the replica meet, however long one of them takes; what each wrote before is then there for
  // all. Without a deadline: a worker that dies ends it through the abort record or its launcher.
  void meet();

  std::int64_t& step() { return *reinterpret_cast<std::int64_t*>(at(kStep)); }
  // What each worker's link fetched when it joined, and what servers have answered for each slice.
  std::span<std::int64_t> versions() {
    return {reinterpret_cast<std::int64_t*>(at(kVersions)), std::size_t(shape_.workers)};
  }
  std::span<std::int64_t> answers() { return {reinterpret_cast<std::int64_t*>(at(kAnswers)), shape_.slices}; }
  // By parameter of the whole network: whether it has a gradient in this step.
  std::span<std::uint8_t> touched() {
    return {reinterpret_cast<std::uint8_t*>(at(kTouched)), shape_.parameters};
  }
  std::span<float> mean() { return {floats(kMean), shape_.lane_values}; }
  std::span<float> gradient() { return {floats(kGradient), shape_.elements}; }
  std::span<float> parameters() { return {floats(kParameters), shape_.elements}; }
  // Of lanes counted from the replica's first.
  std::span<float> rows() { return {floats(kRows), std::size_t(shape_.lanes) * shape_.lane_values}; }
  std::span<float> row(std::int64_t lane) {
    return rows().subspan(std::size_t(lane) * shape_.lane_values, shape_.lane_values);
  }
  // A worker's own notes of a lane: those of a lane are on all workers that hold a part of the network.
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

// What a window for so many workers and lanes of a network needs, where the network is cut over the workers.
ReplicaWindow::Shape window_shape(const NetworkOutline& outline, int workers, std::int64_t lanes);

}  // namespace distbelief::mesh
