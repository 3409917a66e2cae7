#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "distbelief/modes/mode.h"
#include "distbelief/modes/servers/server_share.h"
#include "distbelief/modes/servers/sub_network_task.h"
#include "distbelief/modes/servers/ticket_queue.h"
#include "distbelief/replica/replica_view.h"
#include "distbelief/run/decomposition.h"

namespace distbelief::modes {

// A decomposed model: each replica trains one sub-network, by the loss of a local head, on the outputs of the
// sub-network before it. Each sub-network is a job of its own to the servers, with tickets of the same
// numbers: a ticket of one is dealt when the output of the one before has come, which is dropped when the
// ticket is done. The leader, a replica of the first sub-network, brings the first values of all, waits for
// the end of all, and fetches the whole model where it is validated or saved. A replica is one worker.
class SubNetworks final : public Mode {
 public:
  static ModeParts parts(const run::PreparedJob& job, ServerShareOptions options);
  SubNetworks(replica::Replica& replica, std::shared_ptr<ServerShare> share,
              std::shared_ptr<SubNetworkTraffic> traffic);
  ~SubNetworks() override;

  Reached join(const Entry& entry) override;
  Work next() override;
  Settled settle(const mesh::StepPlan& plan, const mesh::StepOutcome& own) override;
  void pause(const std::function<void()>& wait) override { wait(); }  // it keeps its tickets
  void refresh() override;
  void save(const Saving&) override {}  // the checkpoint has everything
  Finished finish() override;

 private:
  const run::SubNetworkPlace& place(int index) const { return places_[std::size_t(index)]; }
  int index() const { return replica_.terms().sub_network; }
  bool leads() const { return share_->leads(); }
  comm::SpaceSpec spec(int index) const;
  void hold_whole();
  void take_own_part();
  void connect_others();
  std::span<float> statistics_of(int index);
  server::Client& present(server::Client& client);
  void fetch_input(std::int64_t step);
  std::optional<std::int64_t> find_step();
  void push(const mesh::StepPlan& plan);
  void hand_on(std::int64_t ticket);

  replica::Replica& replica_;
  std::shared_ptr<ServerShare> share_;
  std::shared_ptr<SubNetworkTraffic> traffic_;
  std::vector<run::SubNetworkPlace> places_;  // of all sub-networks
  // By sub-network: the next one's; the leader has all, its own too.
  std::map<int, std::unique_ptr<server::Client>> others_;
  std::optional<replica::ReplicaView> view_;
  std::optional<TicketQueue> tickets_;
  // The leader's copy of the whole model.
  std::optional<World> whole_world_;
  mesh::NetworkOutline whole_outline_;
  std::vector<mesh::Stage> whole_;
  std::vector<float> whole_statistics_;
  // A step to come.
  struct Known {
    std::vector<std::byte> input{};
    bool is_done_elsewhere = false;
  };
  std::deque<Known> known_;
  std::int64_t steps_ = 0;
  bool is_broken_off_ = false;
  bool continues_ = false;  // its last step left states of lanes to go on from
};

}  // namespace distbelief::modes
