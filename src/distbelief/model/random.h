#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

// Randomness of a lane. torch's default generator is one per process, so lanes on several threads would
// draw from it in an order that nobody fixes; a scope gives the calling thread its own.
namespace distbelief::model {

// While it lives, layers that run on this thread draw from a CPU generator seeded with `seed` (all 64 bits
// count): into tensors of the host, which then go where they are used, so that draws are the same on any
// device. Made and destroyed on one thread; scopes on a thread do not nest.
class GeneratorScope {
 public:
  explicit GeneratorScope(std::uint64_t seed);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;
};

// From here on the thread's scope draws from its stream of that number, from its beginning: what a block of a
// network draws does not depend on what ran before it. Outside a scope nothing happens.
void begin_stream(std::uint64_t stream);

// The generator of this thread's scope, or nothing: then torch's default one is to be used.
std::optional<at::Generator> current_generator();

// For networks whose layers draw from torch's default generator: while `run` runs, that has the seed of this
// thread's scope, and no other thread is here. Whether they draw at all is found out the first time and noted
// in `draws`; those that do not, and whoever has no scope, take no turns. Blocks for the others' turns.
enum class Draws { kUnknown, kNever, kYes };
at::Tensor with_lane_seed(std::atomic<Draws>& draws, const std::function<at::Tensor()>& run);

}  // namespace distbelief::model
