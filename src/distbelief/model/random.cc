#include "distbelief/model/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/equal.h>

#include <mutex>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"

namespace distbelief::model {
namespace {

struct ThreadGenerator {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>();
  bool in_scope = false;
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  bool is_seeded = false;  // seeding costs microseconds, so it waits for the first draw
};

// Per thread, because torch::nn::Sequential calls a layer's forward, which has no argument for a generator.
// Kept between scopes: seeding it again is cheaper than another 5 KB object.
ThreadGenerator& thread_generator() {
  thread_local ThreadGenerator instance;
  return instance;
}

}  // namespace

GeneratorScope::GeneratorScope(std::uint64_t seed) {
  ThreadGenerator& own = thread_generator();
  DISTBELIEF_INVARIANT(!own.in_scope);
  own.in_scope = true;
  own.seed = seed;
  begin_stream(0);
}

GeneratorScope::~GeneratorScope() { thread_generator().in_scope = false; }

void begin_stream(std::uint64_t stream) {
  ThreadGenerator& own = thread_generator();
  own.stream = stream;
  own.is_seeded = false;
}

std::optional<at::Generator> current_generator() {
  ThreadGenerator& own = thread_generator();
  if (!own.in_scope) return std::nullopt;
  // torch's Mersenne twister uses only 32 bits of its seed; derive_seed mixes all 64 into them.
  if (!own.is_seeded) own.generator.set_current_seed(derive_seed({own.seed, own.stream}));
  own.is_seeded = true;
  return own.generator;
}

at::Tensor with_lane_seed(std::atomic<Draws>& draws, const std::function<at::Tensor()>& run) {
  static std::mutex turn;
  const auto lane = current_generator();
  if (draws == Draws::kNever || !lane) return run();
  const std::lock_guard own_turn(turn);
  at::Generator torchs = at::detail::getDefaultCPUGenerator();
  torchs.set_current_seed(lane->current_seed());
  if (draws == Draws::kYes) return run();
  const at::Tensor before = torchs.get_state();
  at::Tensor output = run();
  draws = before.equal(torchs.get_state()) ? Draws::kNever : Draws::kYes;
  return output;
}

}  // namespace distbelief::model
