#pragma once

#include <memory>
#include <vector>

#include "distbelief/comm/host/ring.h"
#include "distbelief/comm/stream.h"
#include "distbelief/comm/world.h"
#include "distbelief/mesh/mesh.h"
#include "distbelief/mesh/pipeline_schedule.h"

namespace distbelief::mesh {

// The streams of one stage; a stream without an other end is null.
struct StageStreams {
  std::unique_ptr<comm::StreamReceiver> activations_in;  // from the previous stage
  std::unique_ptr<comm::StreamSender> activations_out;   // to the next stage
  std::unique_ptr<comm::StreamReceiver> gradients_in;    // from the next stage
  std::unique_ptr<comm::StreamSender> gradients_out;     // to the previous stage
  // Gradients of a tied weight go to the stage that updates it, its values to the stage that only reads it.
  std::unique_ptr<comm::StreamReceiver> tied_in;
  std::unique_ptr<comm::StreamSender> tied_out;
};

// The streams between the stages of each copy: rings in shared memory inside a host, messages between hosts.
// All workers construct it together; the world outlives it.
class StageWays {
 public:
  struct Options {
    Mesh mesh;
    PipelineShape shape;
    std::size_t array_bytes = 0;  // bytes of the largest activation or gradient of one lane
    // The stage that updates a tied weight, the other stage that reads it, and its bytes; -1: no weight is
    // tied.
    int tied_owner = -1;
    int tied_guest = -1;
    std::size_t tied_bytes = 0;
  };
  StageWays(World& world, const Options& options);

  StageStreams streams_of(int stage);
  // Bytes of shared memory on a host with this number of workers.
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

  static constexpr int kFirstTag = 1000;  // above the tags of the collectives
  World& world_;
  Options options_;
  int first_rank_;  // of this host
  comm::SharedSegment segment_;
};

}  // namespace distbelief::mesh
