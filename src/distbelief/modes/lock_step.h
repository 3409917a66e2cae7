#pragma once

#include "distbelief/modes/mode.h"

namespace distbelief::modes {

// One replica, which is the whole run: nothing happens between replicas.
class LockStep final : public Mode {
 public:
  explicit LockStep(replica::Replica& replica);
  static ModeParts parts();

  Reached join(const Entry& entry) override;
  Work next() override;
  Settled settle(const mesh::StepPlan& plan, const mesh::StepOutcome& own) override;
  void pause(const std::function<void()>& wait) override { wait(); }
  void refresh() override {}            // the record is the replica's own
  void save(const Saving&) override {}  // the checkpoint has everything
  Finished finish() override { return {}; }

 private:
  std::int64_t step_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t steps_per_epoch_ = 1;
};

}  // namespace distbelief::modes
