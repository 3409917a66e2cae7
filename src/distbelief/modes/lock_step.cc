#include "distbelief/modes/lock_step.h"

namespace distbelief::modes {

LockStep::LockStep(replica::Replica& replica)
    : Mode({.stages = replica.stages(), .outline = &replica.partition().outline()}) {}

ModeParts LockStep::parts() {
  return {.terms = {}, .make = [](replica::Replica& replica) { return std::make_unique<LockStep>(replica); }};
}

Reached LockStep::join(const Entry& entry) {
  step_ = entry.step;
  steps_ = entry.steps;
  steps_per_epoch_ = entry.steps_per_epoch;
  return {.step = step_};
}

Work LockStep::next() {
  return {.kind = step_ < steps_ ? Work::Kind::kStep : Work::Kind::kDone,
          .at = {.step = step_},
          .continues = step_ % steps_per_epoch_ != 0};
}

Settled LockStep::settle(const mesh::StepPlan& plan, const mesh::StepOutcome& own) {
  step_ = plan.step + 1;
  return {
      .reached = {.step = step_, .closes_epochs = true, .completes = true}, .loss = own.loss, .agreed = own};
}

}  // namespace distbelief::modes
