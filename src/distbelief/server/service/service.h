#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "distbelief/comm/rpc/exchange_server.h"
#include "distbelief/server/service/budget.h"
#include "distbelief/server/service/refusals.h"
#include "distbelief/server/service/roles.h"
#include "distbelief/server/service/space.h"

namespace distbelief::server {

// A parameter server: keeps slices of any number of jobs, each in its own job state, and answers replicas and
// other servers. Works on gRPC's threads, its links' threads (db-backup), one that fills newcomers (db-fill),
// one for late refusals (db-refuse) and one that closes abandoned jobs (db-lease). Thread safe.
class Service final : public comm::ExchangeServer::Handler {
 public:
  struct Options {
    int id = 0;                                  // of this server, in maps
    comm::ControlAddress identity{};             // its certificates, for other servers; none on one host
    std::string host{};                          // its host's name, as in maps
    std::filesystem::path logs{};                // folder for the update logs; empty: none are kept
    std::size_t memory_limit = std::size_t(-1);  // bytes, all jobs together
    std::size_t job_limit = std::size_t(-1);     // bytes, one job
    int jobs_limit = 64;
    std::chrono::milliseconds lease{0};  // a job without a replica for this long is closed; 0: never
    Refusals::Options refusals{};
    // The newcomers have everything of ours that this map gives them, and the backups every part that we hand
    // over.
    std::function<void(std::int64_t epoch)> on_settled{};
    // This backup does not accept updates, by the map of this epoch: it has to be replaced.
    std::function<void(int server, std::int64_t epoch)> on_apart{};
  };
  explicit Service(Options options);
  ~Service() override;

  // Sets the assignment of slices to servers; an older map than the present one is ignored. Before the first
  // map every request is refused.
  void set_map(const ServerMap& map);

  void handle(comm::ExchangeServer::Request request) override;
  void gone(std::uint64_t connection) override;

  std::int64_t refused() const { return refused_; }  // requests, so far
  std::size_t jobs() const { return spaces().size(); }
  std::size_t bytes() const { return memory_->taken(); }  // used by all jobs

 private:
  void refuse(comm::ExchangeServer::Request request, ErrorCode code, const std::string& why);
  void dispatch(comm::ExchangeServer::Request& request);
  std::shared_ptr<BackupLink> link_to(int id, const std::string& target);
  void tell_apart(int id);
  void keep_links(const Roles& roles);
  void open(const comm::StoreRequest& asked, comm::ExchangeServer::Request& request);
  void close(const comm::StoreRequest& message, comm::ExchangeServer::Request& request);
  std::shared_ptr<Space> admit(const comm::SpaceSpec& spec, std::uint64_t& id, bool is_told);
  void grant(Space& space, bool is_under_way);
  void end_job(const std::string& job);
  bool is_another(const comm::SpaceSpec& spec) const;
  std::shared_ptr<Space> known(const comm::SpaceSpec& spec, std::uint64_t& id) const;
  std::shared_ptr<Budget> room_for(const comm::SpaceSpec& spec, bool is_told) const;
  [[noreturn]] void refuse_job(const comm::SpaceSpec& spec, std::size_t jobs, std::size_t bytes) const;
  bool is_over(const std::string& job) const;
  bool is_closed(const std::string& job) const;
  std::shared_ptr<Space> find(const comm::StoreRequest& message, const comm::Peer& peer) const;
  std::vector<std::shared_ptr<Space>> spaces() const;
  std::shared_ptr<const Roles> roles() const;
  void settle(const std::shared_ptr<const Roles>& roles);
  void fill(BackupLink& link, int newcomer);
  void announce(Space& space) const;
  void watch(const std::stop_token& stop);
  void look_at_jobs();
  std::shared_ptr<Space> extract(const std::string& job);

  Options options_;
  std::shared_ptr<Budget> memory_;  // of all jobs
  std::atomic<std::int64_t> refused_{0};
  Refusals refusals_;
  mutable std::mutex mutex_;  // guards the next four
  std::shared_ptr<const Roles> roles_;
  std::map<std::uint64_t, std::shared_ptr<Space>> spaces_;
  std::map<std::string, std::uint64_t> by_job_;
  std::deque<std::string> closed_;  // jobs that ended last, whether or not they were here
  std::mutex changing_;             // one map and one new job at a time; guards jobs_seen_
  int jobs_seen_ = 0;
  std::vector<std::shared_ptr<BackupLink>> links_;  // all in use: no link may end on its own thread
  std::jthread filling_;
  std::jthread watch_;  // last
};

}  // namespace distbelief::server
