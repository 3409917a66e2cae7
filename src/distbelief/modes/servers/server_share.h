#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/compute/layout.h"
#include "distbelief/modes/servers/served_rows.h"
#include "distbelief/server/client/client.h"
#include "distbelief/server/shard/update_log.h"

namespace distbelief::modes {

struct ServerShareOptions {
  Config config{};  // of the job, resolved
  std::vector<comm::ControlAddress> servers{};
  std::string job = "job";  // by which the servers know it
  int replica = 0;
  int replicas = 1;
  std::int64_t incarnation = 1;
  std::int64_t first_step = 0;  // that a resumed run goes on with; the servers count from there
  int share = 0;                // this worker's, of so many
  int shares = 1;
  std::filesystem::path log{};      // of pushes that were answered; empty: none
  std::function<bool()> goes_on{};  // of server::Client, as is the next
  std::function<std::vector<comm::ControlAddress>()> find_servers{};
};

// A worker's connection to the parameter servers of a job, for its share of the arena. The workers of a
// replica have one each, and their pushes of a step are one. Used by the training thread. Blocks; throws
// Error.
class ServerShare {
 public:
  explicit ServerShare(ServerShareOptions options) : options_(std::move(options)) {}

  const ParallelConfig& parallel() const { return options_.config.parallel; }
  const ServerShareOptions& options() const { return options_; }
  bool leads() const { return options_.replica == 0; }  // this replica writes what the run leaves
  // A ticket is as many steps as are pushed together; the first step is that of the servers' first ticket.
  std::int64_t first_step() const {
    return options_.first_step / parallel().push_every * parallel().push_every;
  }
  std::int64_t ticket_of(std::int64_t step) const { return (step - first_step()) / parallel().push_every; }

  // The job as servers are told it, but for what a mode adds.
  comm::SpaceSpec spec(const compute::Layout& layout, std::size_t lane_values,
                       const std::vector<comm::TableSpec>& tables) const;
  // A client of the servers. `initial` null: another brings the first values.
  std::unique_ptr<server::Client> connect(const comm::SpaceSpec& spec, const float* initial) const;
  // Submits the job, or joins it, the first worker of a replica before the others.
  void join(const comm::SpaceSpec& spec, const float* initial);

  server::Client& client() { return *client_; }
  ServedRows& rows() { return rows_; }
  compute::Span own() const;
  std::span<float> own_of(std::span<float> whole) const { return whole.subspan(own().begin, own().size()); }
  // The newest parameters of its own elements. Gives the least version of a slice.
  std::int64_t fetch(std::span<float> own_parameters);
  // Statistics of the checkpoint that the leader went on from, which others need not have.
  void share_statistics(std::span<float> values);
  // Tells the versions that servers answered its last push with, each at its slice; negative where the step
  // was done before the push came.
  void tell_answers(std::span<std::int64_t> versions) const;
  // All workers' answers to the push of a ticket.
  void log_answers(std::int64_t ticket, std::span<const std::int64_t> versions);
  // Why a run that went on lost its bits: servers begin with empty state of the update rule. Empty: it has
  // none.
  std::string lost_state() const;
  // A wait failed because the run is to stop.
  bool is_broken_off() const { return options_.goes_on && !options_.goes_on(); }

 private:
  ServerShareOptions options_;
  std::unique_ptr<server::UpdateLog> log_;
  std::unique_ptr<server::Client> client_;
  ServedRows rows_;
};

// Slices of an arena of so many elements.
std::size_t slices_of(std::size_t elements);

}  // namespace distbelief::modes
