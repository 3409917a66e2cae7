#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Cuts a list of blocks into pipeline stages. Pure: takes measured costs, returns cuts and the reason. Any
// thread.
namespace distbelief::mesh {

// Cost of one block (a layer, or layers that stay together) for one lane.
struct BlockCost {
  double forward_seconds = 0;
  double backward_seconds = 0;
  std::size_t parameter_bytes = 0;
  std::size_t activation_bytes = 0;  // kept for backward, per lane
  std::size_t output_bytes = 0;      // sent to the next stage when the network is cut after this block
  std::size_t working_bytes = 0;     // temporary memory while the block runs, besides activation_bytes
  std::size_t forward_bytes = 0;     // peak without gradients, including the block's input
};

// Memory limits of one stage.
struct CutLimits {
  std::size_t memory_bytes = 0;         // per stage; 0: no limit
  double bytes_per_parameter_byte = 1;  // parameter and state bytes per parameter byte; Adam: 4
  std::int64_t lanes_alive = 1;         // lanes whose activations a stage keeps at once
};

struct Cuts {
  std::vector<int> ends;       // stage s holds blocks [ends[s - 1], ends[s]); the first begins at 0
  double slowest_seconds = 0;  // forward and backward of one lane in the slowest stage
  double balance = 1;          // mean stage time / slowest stage time
  std::string reason;
};

// Bytes of a stage with these blocks: parameters, their state, and the activations of all lanes alive.
double stage_bytes(std::span<const BlockCost> blocks, const CutLimits& limits);

// Returns the cuts with the fastest slowest stage, among those that give each stage a block and respect the
// limits. Ties (within 1e-9) go to the cuts that send the fewest bytes, then to the earliest cuts. Throws
// Error(kBadInput), with a number of stages that works, when there are fewer blocks than stages or a stage
// does not fit. Takes O(stages x blocks^2) time.
Cuts choose_cuts(std::span<const BlockCost> blocks, int stages, const CutLimits& limits);

// Cuts given by the user as the first block of each stage but the first (parallel.cuts = [3, 6]). Throws
// Error(kBadInput) unless there is one fewer than stages, they ascend, they lie inside the network, and every
// stage fits.
Cuts given_cuts(std::span<const int> firsts, std::span<const BlockCost> blocks, int stages,
                const CutLimits& limits);

}  // namespace distbelief::mesh
