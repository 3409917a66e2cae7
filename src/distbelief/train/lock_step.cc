#include "distbelief/train/lock_step.h"

namespace distbelief::train {

LockStep::LockStep(Replica& replica)
    : Mode({.stages = replica.stages(), .outline = &replica.partition().outline()}) {}

ModeParts LockStep::parts() {
  return {.terms = {}, .make = [](Replica& replica) { return std::make_unique<LockStep>(replica); }};
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

Settled LockStep::settle(const strategy::StepPlan& plan, const StepOutcome& own) {
  step_ = plan.step + 1;
  return {.reached = {.step = step_, .closes_epochs = true}, .loss = own.loss, .agreed = own};
}

}  // namespace distbelief::train
