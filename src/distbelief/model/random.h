#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

// Per-lane randomness. torch has one default generator per process, from which lanes on several threads would
// draw in an arbitrary order; a scope gives the calling thread its own.
namespace distbelief::model {

// RAII guard: layers on this thread draw from a CPU generator seeded with all 64 bits of `seed`. They draw
// into host tensors that are then moved, so draws are the same on any device. Made and destroyed on one
// thread; scopes on a thread must not nest.
class GeneratorScope {
 public:
  explicit GeneratorScope(std::uint64_t seed);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;
};

// Switches the thread's scope to the beginning of stream `stream`, so that a block's draws do not depend on
// the blocks before it. No effect outside a scope.
void begin_stream(std::uint64_t stream);

// The generator of this thread's scope; without one, layers use torch's default generator.
std::optional<at::Generator> current_generator();

// Runs a network whose layers draw from torch's default generator: seeds that with this thread's scope and
// excludes other threads. The first run finds out whether the layers draw at all and records it in `draws`.
// Networks that do not draw, and threads without a scope, take no turns. Blocks while another thread has the
// turn.
enum class Draws { kUnknown, kNever, kYes };
at::Tensor with_lane_seed(std::atomic<Draws>& draws, const std::function<at::Tensor()>& run);

}  // namespace distbelief::model
