#pragma once

#include "distbelief/train/mode.h"

namespace distbelief::train {

// One replica, which is the whole run: nothing happens between replicas.
class LockStep final : public Mode {
 public:
  explicit LockStep(Replica& replica);
  static ModeParts parts();

  Reached join(const Entry& entry) override;
  Work next() override;
  Settled settle(const strategy::StepPlan& plan, const StepOutcome& own) override;
  void pause(const std::function<void()>& wait) override { wait(); }
  void refresh() override {}            // the record is the replica's own
  void save(const Saving&) override {}  // the checkpoint has everything
  Finished finish() override { return {}; }

 private:
  std::int64_t step_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t steps_per_epoch_ = 1;
};

}  // namespace distbelief::train
