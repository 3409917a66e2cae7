#pragma once

#include <memory>
#include <optional>

#include "distbelief/modes/mode.h"
#include "distbelief/modes/servers/server_share.h"
#include "distbelief/replica/replica_view.h"

namespace distbelief::modes {

// Parameter servers, synchronous: all replicas take part in every step, each with its lanes, and the servers
// update when the gradients of all lanes are in. With spare replicas a step does not wait for the slowest.
class SyncServers final : public Mode {
 public:
  static ModeParts parts(const ServerShareOptions& options);
  SyncServers(replica::Replica& replica, std::shared_ptr<ServerShare> share);

  Reached join(const Entry& entry) override;
  Work next() override;
  Settled settle(const mesh::StepPlan& plan, const mesh::StepOutcome& own) override;
  void pause(const std::function<void()>& wait) override { wait(); }  // the others wait for it
  void refresh() override {}                                          // the record is the replica's own
  void save(const Saving&) override {}                                // the checkpoint has everything
  Finished finish() override { return {}; }

 private:
  comm::SpaceSpec spec() const;
  std::int64_t meet_lanes(const mesh::StepPlan& plan);
  void pass_over(std::int64_t after, std::int64_t next);

  replica::Replica& replica_;
  std::shared_ptr<ServerShare> share_;
  TreeNode lanes_;
  std::optional<replica::ReplicaView> view_;
  std::int64_t step_ = 0, steps_ = 0, steps_per_epoch_ = 1;
  std::int64_t passed_over_ = 0;  // steps that the others did not wait for it in
};

}  // namespace distbelief::modes
