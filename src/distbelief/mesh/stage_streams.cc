#include "distbelief/mesh/stage_streams.h"

#include <algorithm>

#include "distbelief/comm/link_stream.h"

namespace distbelief::mesh {

using comm::HostRing;

// The number of slots is large enough that no schedule of mesh/pipeline_schedule.h deadlocks.
HostRing::Shape StageWays::ring_shape(const Options& options, Kind kind) {
  const bool tied = kind == Kind::kTied;
  return {.slot_bytes = tied ? options.tied_bytes : options.array_bytes,
          .slots = tied && options.tied_owner < 0 ? 0 : options.shape.pipeline + 1};
}

std::size_t StageWays::worker_bytes(const Options& options) {
  std::size_t bytes = 0;
  for (int kind = 0; kind < kKinds; ++kind) bytes += HostRing::bytes_needed(ring_shape(options, Kind(kind)));
  return std::size_t(options.shape.chunks) * bytes;
}

std::size_t StageWays::bytes_needed(const Options& options, int workers) {
  return std::size_t(workers) * worker_bytes(options);
}

StageWays::StageWays(World& world, const Options& options)
    : world_(world),
      options_(options),
      first_rank_(world.rank() - world.local_rank()),
      segment_(comm::SharedSegment::map_together(world.host_group().transport(),
                                                 bytes_needed(options, world.local_size()))) {}

int StageWays::rank_of(int stage) const {
  MeshPlace place = place_of(options_.mesh, world_.rank());
  place.pipeline = options_.shape.place_of_stage(stage);
  return rank_at(options_.mesh, place);
}

bool StageWays::is_here(int rank) const {
  return rank >= first_rank_ && rank < first_rank_ + world_.local_size();
}

// Each worker's memory holds the rings that it receives from: one of each kind per chunk.
std::byte* StageWays::ring_of(int rank, int stage, Kind kind) const {
  const auto chunk = std::size_t(stage / options_.shape.pipeline);
  std::size_t at = std::size_t(rank - first_rank_) * worker_bytes(options_) +
                   chunk * worker_bytes(options_) / std::size_t(options_.shape.chunks);
  for (int before = 0; before < int(kind); ++before)
    at += HostRing::bytes_needed(ring_shape(options_, Kind(before)));
  return segment_.data() + at;
}

std::unique_ptr<comm::StreamSender> StageWays::sender(int to_stage, Kind kind) {
  const int to = rank_of(to_stage);
  if (is_here(to))
    return std::make_unique<comm::HostRingSender>(ring_of(to, to_stage, kind), ring_shape(options_, kind),
                                                  world_.host_group().domain().waiter(), to);
  return std::make_unique<comm::LinkSender>(
      comm::LinkSender::Options{.link = &world_.link(), .receiver = to, .tag = tag_of(to_stage, kind)});
}

std::unique_ptr<comm::StreamReceiver> StageWays::receiver(int at_stage, int from_stage, Kind kind) {
  const int from = rank_of(from_stage);
  if (is_here(from))
    return std::make_unique<comm::HostRingReceiver>(ring_of(world_.rank(), at_stage, kind),
                                                    ring_shape(options_, kind),
                                                    world_.host_group().domain().waiter(), from);
  return std::make_unique<comm::LinkReceiver>(world_.link(), from, tag_of(at_stage, kind));
}

StageStreams StageWays::streams_of(int stage) {
  StageStreams streams;
  if (stage > 0) {
    streams.activations_in = receiver(stage, stage - 1, Kind::kActivations);
    streams.gradients_out = sender(stage - 1, Kind::kGradients);
  }
  if (stage + 1 < options_.shape.stages()) {
    streams.activations_out = sender(stage + 1, Kind::kActivations);
    streams.gradients_in = receiver(stage, stage + 1, Kind::kGradients);
  }
  if (stage == options_.tied_owner || stage == options_.tied_guest) {
    const int other = stage == options_.tied_owner ? options_.tied_guest : options_.tied_owner;
    streams.tied_in = receiver(stage, other, Kind::kTied);
    streams.tied_out = sender(other, Kind::kTied);
  }
  return streams;
}

}  // namespace distbelief::mesh
