#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Where a list of blocks is cut into the stages of a pipeline. Pure: measured costs in, cuts and the reason
// out. Any thread.
namespace distbelief::mesh {

// What one block (a layer, or layers that stay together) costs for one lane.
struct BlockCost {
  double forward_seconds = 0;
  double backward_seconds = 0;
  std::size_t parameter_bytes = 0;
  std::size_t activation_bytes = 0;  // kept for backward, per lane
  std::size_t output_bytes = 0;      // sent on when the network is cut after this block
  std::size_t working_bytes = 0;     // besides what is kept, while it runs
  std::size_t forward_bytes = 0;     // at most at a time without gradients, its input included
};

// What one stage may hold.
struct CutLimits {
  std::size_t memory_bytes = 0;         // per stage; 0: no limit
  double bytes_per_parameter_byte = 1;  // state that a parameter byte brings, itself included; Adam: 4
  std::int64_t lanes_alive = 1;         // lanes whose activations a stage keeps at the same time
};

struct Cuts {
  std::vector<int> ends;       // stage s holds blocks [ends[s - 1], ends[s]); the first begins at 0
  double slowest_seconds = 0;  // of the slowest stage: forward and backward of one lane
  double balance = 1;          // mean time of the stages / the slowest
  std::string reason;
};

// Bytes of a stage of these blocks: parameters with their state, activations of all lanes alive.
double stage_bytes(std::span<const BlockCost> blocks, const CutLimits& limits);

// The cuts whose slowest stage is fastest, of all that give each stage a block and keep to the limits. Of
// equal ones (within 1e-9) those that send the fewest bytes, then those that cut earlier. Throws
// Error(kBadInput) with the number of stages that would do: when there are fewer blocks than stages, or when
// a stage cannot fit. Takes time proportional to stages x blocks^2.
Cuts choose_cuts(std::span<const BlockCost> blocks, int stages, const CutLimits& limits);

// The cuts that a user gave: the first block of each stage but the first, parallel.cuts = [3, 6]. Throws
// Error(kBadInput) when they are not one less than the stages, not ascending, outside of the network, or make
// a stage that does not fit.
Cuts given_cuts(std::span<const int> firsts, std::span<const BlockCost> blocks, int stages,
                const CutLimits& limits);

}  // namespace distbelief::mesh
