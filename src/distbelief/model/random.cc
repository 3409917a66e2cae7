#include "distbelief/model/random.h"

#include <ATen/CPUGeneratorImpl.h>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"

namespace distbelief::model {
namespace {

struct ThreadGenerator {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>();
  bool in_scope = false;
};

// Per thread because a layer's forward has no argument through which a generator could be handed down, and
// torch::nn::Sequential calls it. Kept between scopes: seeding it anew is cheaper than another 5 KB object.
ThreadGenerator& thread_generator() {
  thread_local ThreadGenerator instance;
  return instance;
}

}  // namespace

GeneratorScope::GeneratorScope(std::uint64_t seed) {
  ThreadGenerator& own = thread_generator();
  DISTBELIEF_INVARIANT(!own.in_scope);
  // torch's Mersenne twister looks at 32 bits of its seed; mixing first lets all 64 count.
  own.generator.set_current_seed(derive_seed({seed}));
  own.in_scope = true;
}

GeneratorScope::~GeneratorScope() { thread_generator().in_scope = false; }

std::optional<at::Generator> current_generator() {
  const ThreadGenerator& own = thread_generator();
  return own.in_scope ? std::optional<at::Generator>(own.generator) : std::nullopt;
}

}  // namespace distbelief::model
