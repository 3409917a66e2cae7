#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "distbelief/train/mode.h"
#include "distbelief/train/replica_view.h"
#include "distbelief/train/server_share.h"
#include "distbelief/train/ticket_queue.h"

namespace distbelief::train {

// Parameter servers, each replica at its own pace: a step is dealt to one replica, and its gradient is
// applied when it comes (async, hybrid), or when it is not too old (bounded). Gradients may be accrued over
// several steps before a push, and several steps may go by between two fetches (Dean et al., 2012,
// "Downpour").
class PacedServers final : public Mode {
 public:
  static ModeParts parts(const ServerShareOptions& options);
  PacedServers(Replica& replica, std::shared_ptr<ServerShare> share);

  Reached join(const Entry& entry) override;
  Work next() override;
  Settled settle(const strategy::StepPlan& plan, const StepOutcome& own) override;
  void pause(const std::function<void()>& wait) override;
  void refresh() override {}  // the record is the replica's own
  void save(const Saving& saving) override;
  Finished finish() override;

 private:
  comm::SpaceSpec spec() const;
  void await_warm_start();
  void bring_rows(const Entry& entry);
  std::int64_t take_step(std::vector<std::int64_t>& announced, bool& is_stale);
  void exchange(const strategy::StepPlan& plan);
  void catch_up();

  Replica& replica_;
  std::shared_ptr<ServerShare> share_;
  std::optional<ReplicaView> view_;
  std::optional<TicketQueue> tickets_;  // the first worker's
  std::int64_t steps_ = 0;
  bool is_broken_off_ = false;
  bool continues_ = false;                            // its last step left states of lanes to go on from
  std::optional<std::int64_t> pushed_;                // the ticket of this step's push
  std::vector<float> accrued_;                        // gradients of a ticket's steps so far
  std::optional<std::vector<std::int32_t>> missing_;  // parameters that none of these had a gradient for
  std::int64_t since_fetch_ = 0;                      // steps
};

}  // namespace distbelief::train
