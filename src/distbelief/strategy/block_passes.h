#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "distbelief/comm/host/domain.h"
#include "distbelief/compute/layout.h"
#include "distbelief/strategy/shared_state.h"

namespace distbelief::strategy {

// A lap is one lane's way through the blocks of a network: forward 0, 1, ..., n - 1, and in training back
// again n - 2, ..., 0 (the last block is there still). Each place of a lap is a block that the hosts gather.
enum class Lap { kTraining, kForward };
int places_of(Lap lap, int blocks);
int block_at(int place, int blocks);
int backward_place(int block, int blocks);  // n - 1 for the last block, as forward

// One carrier's side of gathering blocks from the other hosts (ZeRO-3): it waits for a block of its lap and
// says when it has used it. Places are used in order; all carriers of all hosts make the same laps, those
// without a lane in one let it pass. Waits have the domain's deadline and end with its abort record.
class BlockPasses {
 public:
  struct Options {
    SharedState* state = nullptr;
    comm::HostDomain* domain = nullptr;
    int blocks = 0;
    // Called before it waits: whoever it waits for may himself wait for sums of this carrier. May be empty.
    std::function<void()> before_wait{};
  };
  explicit BlockPasses(const Options& options) : options_(options) {}

  // So many laps begin; `step` is for messages.
  void begin(std::int64_t laps, Lap lap, std::int64_t step);
  void begin_lap() { ++lap_; }
  void skip(std::int64_t laps);
  void hold(int place);
  void used(int place);
  void end_lap();
  void end();

  int blocks() const { return options_.blocks; }

 private:
  void use_up_to(std::int64_t places);

  Options options_;
  std::uint32_t base_ = 0;   // places of all that was before
  std::int64_t places_ = 0;  // of one lap
  std::int64_t all_ = 0;     // of all laps
  std::int64_t lap_ = -1;
  std::int64_t step_ = 0;
};

}  // namespace distbelief::strategy
