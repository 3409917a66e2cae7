#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/mesh/parameter_link.h"
#include "distbelief/modes/servers/served_rows.h"
#include "distbelief/server/client/client.h"
#include "distbelief/server/shard/update_log.h"

namespace distbelief::modes {

// The link of a replica to parameter servers (S3.1 synchronous, S3.2 asynchronous, bounded staleness between
// them). Used by the training thread.
class ServerLink final : public mesh::ParameterLink {
 public:
  // Of a decomposed model: which one, from 0 on, and how large the input that a step waits for is at most.
  struct SubNetwork {
    int index = 0;
    std::uint64_t input_bytes = 0;
    std::size_t statistics = 0;  // floats
  };
  struct Options {
    Config config{};  // of the job, resolved
    std::vector<comm::ControlAddress> servers{};
    std::string job = "job";  // by which the servers know it
    int replica = 0;
    int replicas = 1;
    std::int64_t incarnation = 1;
    std::int64_t first_step = 0;  // that a resumed run goes on with; the servers count from there
    int share = 0;                // this worker's, of so many
    int shares = 1;
    std::filesystem::path log{};  // of pushes that were answered; empty: none
    std::optional<SubNetwork> sub_network{};
    std::function<void(std::int64_t ticket)> when_pushed{};  // before the dealer hears that it is done
    std::function<bool()> goes_on{};                         // of server::Client, as is the next
    std::function<std::vector<comm::ControlAddress>()> find_servers{};
  };
  explicit ServerLink(Options options);

  bool is_synchronous() const override { return parallel().mode == "sync"; }
  TreeNode lanes() const override;
  bool leads() const override { return options_.replica == 0; }
  bool is_shared_out() const override { return options_.shares > 1; }
  compute::Span own(std::size_t elements) const override;
  std::int64_t join(const Start& start) override;
  std::int64_t agree(std::int64_t version) override;
  void begin(std::int64_t step, const Start& start) override;
  std::optional<std::int64_t> next(const std::function<void(std::int64_t)>& announce) override;
  void exchange(const Share& share, std::span<const float> gradient, std::span<float> parameters) override;
  std::size_t slices(std::size_t elements) const override;
  void read_answers(std::span<std::int64_t> versions) const override;
  void acknowledge(std::span<const std::int64_t> versions) override;
  std::int64_t meet(std::int64_t step, std::span<const float> rows, const std::vector<std::int32_t>& empty,
                    std::span<float> mean) override;
  bool is_stale() const override { return is_stale_; }
  void catch_up(std::span<float> parameters) override;
  std::optional<std::int64_t> rest() override;
  void wake() override;
  bool is_cut_short() const override { return cut_short_; }
  tasks::RowLink* rows() override { return &rows_; }
  // A client of the servers for this run, or one of its sub-networks. `initial` null: another brings them.
  std::unique_ptr<server::Client> connect(const Start& start, const std::optional<SubNetwork>& sub_network,
                                          const float* initial) const;
  server::Client& client() { return *client_; }
  // Another replica has done the step that next() gave.
  void skip() {
    if (!takes_in_order()) ask();
  }
  Finished finish(std::span<float> parameters) override;

 private:
  const ParallelConfig& parallel() const { return options_.config.parallel; }
  comm::SpaceSpec spec_for(const Start& start, const std::optional<SubNetwork>& sub_network) const;
  std::span<float> own_of(std::span<float> whole) const;
  // The step of the servers' first ticket.
  std::int64_t first() const { return options_.first_step / parallel().push_every * parallel().push_every; }
  std::int64_t ticket_of(std::int64_t step) const { return (step - first()) / parallel().push_every; }
  void share_statistics(std::span<float> values);
  void push(const server::Client::Push& push, std::span<const float> gradient, std::span<float> parameters);
  std::int64_t fetch(std::span<float> parameters);
  void log_answers(std::int64_t ticket, std::span<const std::int64_t> versions);
  void await_warm_start();
  bool is_broken_off();
  std::optional<std::int64_t> take_step(const std::function<void(std::int64_t)>& announce);
  // Of a sub-network, whose result may not depend on how fast answers come.
  bool takes_in_order() const { return options_.sub_network.has_value(); }
  void ask();
  void note(std::optional<std::int64_t> ticket, const std::function<void(std::int64_t)>& announce);
  void note_answers_in_order(const std::function<void(std::int64_t)>& announce);
  void exchange_alone(const Share& share, std::span<const float> gradient, std::span<float> parameters);

  Options options_;
  std::unique_ptr<server::UpdateLog> log_;
  std::unique_ptr<server::Client> client_;
  ServedRows rows_;
  std::int64_t steps_ = 0;                            // of the run
  std::deque<server::Client::Asked> asked_;           // tickets on their way
  std::deque<std::int64_t> ahead_;                    // steps of tickets that are here
  bool ended_ = false;                                // no more tickets
  bool cut_short_ = false;                            // a wait was broken off
  bool is_stale_ = false;                             // others went on since the last fetch (bounded)
  std::optional<std::int64_t> pushed_;                // the ticket of this step's push
  std::vector<std::int64_t> done_;                    // tickets, that the dealer has not been told of
  std::vector<float> accrued_;                        // gradients of a ticket's steps so far
  std::optional<std::vector<std::int32_t>> missing_;  // parameters that none of these had a gradient for
  std::int64_t since_fetch_ = 0;                      // steps
};

}  // namespace distbelief::modes
