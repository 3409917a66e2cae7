#include "distbelief/planner/memory_meter.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>

namespace distbelief::planner {

// Uses the interface of libtorch's memory profiler.
struct MemoryMeter::State final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, std::int64_t bytes, std::int64_t, std::int64_t, c10::Device) override {
    held += bytes;
    peak = std::max(peak, held);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t held = 0;
  std::int64_t peak = 0;
};

struct MemoryMeter::Scope {
  explicit Scope(std::shared_ptr<State> state)
      : guard(c10::DebugInfoKind::PROFILER_STATE, std::move(state)) {}
  c10::DebugInfoGuard guard;
};

MemoryMeter::MemoryMeter() : state_(std::make_shared<State>()), scope_(std::make_unique<Scope>(state_)) {}
MemoryMeter::~MemoryMeter() = default;

std::int64_t MemoryMeter::held() const { return state_->held; }
std::int64_t MemoryMeter::peak() const { return state_->peak; }
void MemoryMeter::begin_peak() const { state_->peak = state_->held; }

}  // namespace distbelief::planner
