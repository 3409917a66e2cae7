#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "distbelief/modes/mode.h"
#include "distbelief/modes/servers/server_share.h"
#include "distbelief/modes/servers/ticket_queue.h"
#include "distbelief/replica/replica_view.h"

namespace distbelief::modes {

// Parameter servers, each replica at its own pace: a step is dealt to one replica, and its gradient is
// applied when it comes (async, hybrid), or when it is not too old (bounded). Gradients may be accrued over
// several steps before a push, and several steps may go by between two fetches (Dean et al., 2012,
// "Downpour").
class PacedServers final : public Mode {
 public:
  static ModeParts parts(const ServerShareOptions& options);
  PacedServers(replica::Replica& replica, std::shared_ptr<ServerShare> share);

  Reached join(const Entry& entry) override;
  Work next() override;
  Settled settle(const mesh::StepPlan& plan, const mesh::StepOutcome& own) override;
  void pause(const std::function<void()>& wait) override;
  void refresh() override {}  // the record is the replica's own
  void save(const Saving& saving) override;
  Finished finish() override;

 private:
  comm::SpaceSpec spec() const;
  void await_warm_start();
  void bring_rows(const Entry& entry);
  std::int64_t take_step(std::vector<std::int64_t>& announced, bool& is_stale);
  void exchange(const mesh::StepPlan& plan);
  void catch_up();

  replica::Replica& replica_;
  std::shared_ptr<ServerShare> share_;
  std::optional<replica::ReplicaView> view_;
  std::optional<TicketQueue> tickets_;  // the first worker's
  std::int64_t steps_ = 0;
  bool is_broken_off_ = false;
  bool continues_ = false;                            // its last step left states of lanes to go on from
  std::optional<std::int64_t> pushed_;                // the ticket of this step's push
  std::vector<float> accrued_;                        // gradients of a ticket's steps so far
  std::optional<std::vector<std::int32_t>> missing_;  // parameters that none of these had a gradient for
  std::int64_t since_fetch_ = 0;                      // steps
};

}  // namespace distbelief::modes
