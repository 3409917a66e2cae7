#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "distbelief/comm/host/domain.h"
#include "distbelief/compute/layout.h"
#include "distbelief/mesh/pipeline_schedule.h"
#include "distbelief/mesh/shared_state.h"

namespace distbelief::mesh {

// How a lane runs through the blocks of a network: forward 0, 1, ..., n - 1; backward n - 1, ..., 0; or
// forward and straight back (the last block stays in memory). Each place of a pass is one block, which the
// hosts gather.
enum class Pass { kForward, kBackward, kThereAndBack };
int places_of(Pass pass, int blocks);
int backward_place(Pass pass, int block,
                   int blocks);  // the place of its backward; the place of its forward is its number
// The blocks of all passes in order, one per place.
std::vector<int> course_of(const std::vector<Pass>& passes, int blocks);

// The passes of one stage in a step, in the order of its worker's schedule; `backward` is the kind of pass
// for its backward.
std::vector<Pass> passes_of(std::span<const PipelineAction> actions, int stage, Pass backward);

// One carrier's side of gathering blocks from other hosts (ZeRO-3): waits for a block of its pass and reports
// when it has used the block. Places are used in order. All carriers of all hosts make the same passes; a
// carrier without a lane in a pass skips it. Waits have the domain's deadline and end with its abort record.
class BlockPasses {
 public:
  struct Options {
    SharedState* state = nullptr;
    comm::HostDomain* domain = nullptr;
    int blocks = 0;
  };
  explicit BlockPasses(const Options& options) : options_(options) {}

  // Starts these passes; `step` appears in messages.
  void begin(const std::vector<Pass>& passes, std::int64_t step);
  void begin_pass() { ++pass_; }
  void skip(std::int64_t passes);
  void hold(int place);
  void used(int place);
  void end_pass();
  void end();

  int blocks() const { return options_.blocks; }

 private:
  void use_up_to(std::int64_t places);
  std::int64_t start() const { return starts_[std::size_t(pass_)]; }

  Options options_;
  std::uint32_t base_ = 0;               // places of all earlier passes
  std::vector<std::int64_t> starts_{0};  // first place of each pass, and the end of the last one
  std::int64_t pass_ = -1;
  std::int64_t step_ = 0;
};

}  // namespace distbelief::mesh
