#pragma once

#include <memory>
#include <vector>

#include "distbelief/comm/host/ring.h"
#include "distbelief/comm/stream.h"
#include "distbelief/comm/world.h"
#include "distbelief/mesh/mesh.h"
#include "distbelief/mesh/pipeline_schedule.h"

namespace distbelief::mesh {

// The streams of one stage; those that lead nowhere are null.
struct StageStreams {
  std::unique_ptr<comm::StreamReceiver> activations_in;  // from the stage before
  std::unique_ptr<comm::StreamSender> activations_out;   // to the next
  std::unique_ptr<comm::StreamReceiver> gradients_in;    // from the next
  std::unique_ptr<comm::StreamSender> gradients_out;     // to the one before
  std::unique_ptr<comm::StreamReceiver> tied_in;         // gradients to who updates a tied weight, the
  std::unique_ptr<comm::StreamSender> tied_out;          // weight to who only reads it
};

// The ways between the stages of each replica: rings in shared memory inside a host, messages between hosts.
// Made by all workers together; the world outlives it.
class StageWays {
 public:
  struct Options {
    Mesh mesh;
    PipelineShape shape;
    std::size_t array_bytes = 0;  // of the largest activation or gradient of one
    // The stage that updates a tied weight, the one that reads it too, and its bytes; -1: none is tied.
    int tied_owner = -1;
    int tied_guest = -1;
    std::size_t tied_bytes = 0;
  };
  StageWays(World& world, const Options& options);

  StageStreams streams_of(int stage);
  // Shared memory on a host with so many workers.
  static std::size_t bytes_needed(const Options& options, int workers);

 private:
  enum class Kind { kActivations, kGradients, kTied };
  static constexpr int kKinds = 3;
  static comm::HostRing::Shape ring_shape(const Options& options, Kind kind);
  static std::size_t worker_bytes(const Options& options);
  std::unique_ptr<comm::StreamSender> sender(int to_stage, Kind kind);
  std::unique_ptr<comm::StreamReceiver> receiver(int at_stage, int from_stage, Kind kind);
  int rank_of(int stage) const;
  bool is_here(int rank) const;
  std::byte* ring_of(int rank, int stage, Kind kind) const;
  int tag_of(int stage, Kind kind) const { return kFirstTag + stage * kKinds + int(kind); }

  static constexpr int kFirstTag = 1000;  // above those of the collectives
  World& world_;
  Options options_;
  int first_rank_;  // of this host
  comm::SharedSegment segment_;
};

}  // namespace distbelief::mesh
