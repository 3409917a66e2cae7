#include "distbelief/mesh/replica_window.h"

#include "distbelief/mesh/team.h"

namespace distbelief::mesh {
namespace {

std::size_t on_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

std::size_t ReplicaWindow::bytes_of(const Shape& shape, int section) {
  const auto lanes = std::size_t(shape.lanes), workers = std::size_t(shape.workers);
  switch (Section(section)) {
    case kSignals: return workers * sizeof(comm::Signal);
    case kStep: return sizeof(std::int64_t);
    case kVersions: return workers * sizeof(std::int64_t);
    case kAnswers: return shape.slices * sizeof(std::int64_t);
    case kTouched: return shape.parameters;
    case kMean: return shape.lane_values * sizeof(float);
    case kGradient:
    case kParameters: return shape.elements * sizeof(float);
    case kRows: return lanes * shape.lane_values * sizeof(float);
    case kNotes: return workers * lanes * shape.note_values * sizeof(float);
    case kSections: break;
  }
  return 0;
}

std::size_t ReplicaWindow::offset_of(const Shape& shape, int section) {
  std::size_t offset = 0;
  for (int before = 0; before < section; ++before) offset += on_lines(bytes_of(shape, before));
  return offset;
}

std::size_t ReplicaWindow::bytes_needed(const Shape& shape) { return offset_of(shape, kSections); }

ReplicaWindow::ReplicaWindow(comm::HostCommunicator& host, const Shape& shape)
    : host_(host),
      shape_(shape),
      segment_(shape.workers == 1
                   ? comm::SharedSegment::map_private(bytes_needed(shape))
                   : comm::SharedSegment::map_together(host.transport(), bytes_needed(shape))) {}

void ReplicaWindow::meet() {
  if (shape_.workers == 1) return;
  const comm::Waiter waiter(host_.domain().abort(), std::chrono::hours(24 * 365),
                            std::chrono::nanoseconds(0));
  signal(host_.rank()).raise(++meetings_);
  for (int worker = 0; worker < shape_.workers; ++worker)
    waiter.wait(signal(worker), meetings_,
                {.rank = host_.domain().rank_of(worker), .operation = "meet for the servers"});
}

ReplicaWindow::Shape window_shape(const NetworkOutline& outline, int workers, std::int64_t lanes) {
  return {.workers = workers,
          .parameters = outline.parameters.size(),
          .elements = compute::Layout(outline.parameters, 1).size(),
          .lane_values = outline.buffers + kNoteFloats,
          .note_values = kNoteFloats,
          .lanes = lanes};
}

}  // namespace distbelief::mesh
