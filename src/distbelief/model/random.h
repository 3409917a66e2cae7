#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
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

}  // namespace distbelief::model
