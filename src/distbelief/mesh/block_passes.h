#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "distbelief/comm/host/domain.h"
#include "distbelief/compute/layout.h"
#include "distbelief/mesh/pipeline_schedule.h"
#include "distbelief/mesh/shared_state.h"

namespace distbelief::mesh {

// A lane's way over the blocks of a network: forward 0, 1, ..., n - 1; backward n - 1, ..., 0; or forward and
// straight back again (the last block is there still). Each place of a pass is a block that the hosts gather.
enum class Pass { kForward, kBackward, kThereAndBack };
int places_of(Pass pass, int blocks);
int backward_place(Pass pass, int block,
                   int blocks);  // of its backward; of its forward it is the block's number
// The blocks of all passes, one place after another.
std::vector<int> course_of(const std::vector<Pass>& passes, int blocks);

// Those of one stage in a step, in the order of its worker's schedule; `backward` is how it goes back.
std::vector<Pass> passes_of(std::span<const PipelineAction> actions, int stage, Pass backward);

// One carrier's side of gathering blocks from the other hosts (ZeRO-3): it waits for a block of its pass and
// says when it has used it. Places are used in order; all carriers of all hosts make the same passes, those
// without a lane in one let it go by. Waits have the domain's deadline and end with its abort record.
class BlockPasses {
 public:
  struct Options {
    SharedState* state = nullptr;
    comm::HostDomain* domain = nullptr;
    int blocks = 0;
  };
  explicit BlockPasses(const Options& options) : options_(options) {}

  // These passes begin; `step` is for messages.
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
  std::uint32_t base_ = 0;               // places of all that was before
  std::vector<std::int64_t> starts_{0};  // of each pass, and where the last one ends
  std::int64_t pass_ = -1;
  std::int64_t step_ = 0;
};

}  // namespace distbelief::mesh
