#include "distbelief/mesh/block_passes.h"

namespace distbelief::mesh {

int places_of(Pass pass, int blocks) { return pass == Pass::kThereAndBack ? 2 * blocks - 1 : blocks; }

int backward_place(Pass pass, int block, int blocks) { return places_of(pass, blocks) - 1 - block; }

std::vector<int> course_of(const std::vector<Pass>& passes, int blocks) {
  std::vector<int> course;
  for (const Pass pass : passes) {
    for (int block = 0; pass != Pass::kBackward && block < blocks; ++block) course.push_back(block);
    const int first = pass == Pass::kThereAndBack ? blocks - 2 : blocks - 1;
    for (int block = first; pass != Pass::kForward && block >= 0; --block) course.push_back(block);
  }
  return course;
}

std::vector<Pass> passes_of(std::span<const PipelineAction> actions, int stage, Pass backward) {
  std::vector<Pass> passes;
  for (const PipelineAction& action : actions)
    if (action.stage == stage)
      passes.push_back(action.kind == PipelineAction::Kind::kForward ? Pass::kForward : backward);
  return passes;
}

void BlockPasses::begin(const std::vector<Pass>& passes, std::int64_t step) {
  base_ += std::uint32_t(starts_.back());
  starts_.assign(1, 0);
  for (const Pass pass : passes) starts_.push_back(starts_.back() + places_of(pass, options_.blocks));
  pass_ = -1;
  step_ = step;
}

void BlockPasses::skip(std::int64_t passes) {
  pass_ += passes;
  use_up_to(starts_[std::size_t(pass_ + 1)]);
}

void BlockPasses::hold(int place) {
  // The exchange has its own deadlines and knows which host is silent.
  options_.domain->patient_waiter().wait(
      options_.state->host().gathered, base_ + std::uint32_t(start() + place + 1),
      {.rank = options_.domain->rank_of(0), .operation = "gather parameters", .step = step_});
}

void BlockPasses::used(int place) { use_up_to(start() + place + 1); }
void BlockPasses::end_pass() { use_up_to(starts_[std::size_t(pass_ + 1)]); }
void BlockPasses::end() { use_up_to(starts_.back()); }

void BlockPasses::use_up_to(std::int64_t places) {
  options_.state->carrier(options_.domain->member()).used.raise(base_ + std::uint32_t(places));
}

}  // namespace distbelief::mesh
