#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "distbelief/train/mode.h"
#include "distbelief/train/parameter_link.h"
#include "distbelief/train/served_replica.h"

namespace distbelief::train {

// A replica whose parameters are kept elsewhere, on servers or by a method that searches.
class ServedMode final : public Mode {
 public:
  ServedMode(Replica& replica, std::shared_ptr<ParameterLink> link);
  ~ServedMode() override;
  static ReplicaTerms terms_of(ParameterLink& link);

  Reached join(const Entry& entry) override;
  Work next() override;
  Settled settle(const strategy::StepPlan& plan, const StepOutcome& own) override;
  void pause(const std::function<void()>& wait) override;
  void refresh() override;
  void save(const Saving& saving) override;
  Finished finish() override;

 private:
  bool is_first() const { return replica_.world().rank() == 0; }
  void hold_whole();
  void take_own_part();
  void read_statistics();
  void bring_rows(const Entry& entry);
  std::vector<std::int64_t> deal_steps();
  void pass_over(std::int64_t after, std::int64_t next);
  bool rest();

  Replica& replica_;
  std::shared_ptr<ParameterLink> link_;  // its maker's, too
  std::optional<ServedReplica> served_;
  // Of a decomposed model, where this replica leads: a copy of the whole one.
  std::optional<World> whole_world_;
  NetworkOutline whole_outline_;
  std::vector<Stage> whole_;
  std::vector<float> whole_statistics_;
  std::int64_t step_ = 0, steps_ = 0, steps_per_epoch_ = 1;
  std::int64_t passed_over_ = 0;  // steps that the others did not wait for it in
  bool continues_ = false;        // its last step left states of lanes to go on from
};

}  // namespace distbelief::train
