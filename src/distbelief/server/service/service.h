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

// A parameter server: keeps slices of any number of jobs, each in a space of its own, and does what replicas
// and other servers ask. Works on gRPC's threads, its links' (db-backup), one that fills newcomers (db-fill),
// one for late refusals (db-refuse) and one that looks for jobs that nobody speaks for (db-lease); thread
// safe.
class Service final : public comm::ExchangeServer::Handler {
 public:
  struct Options {
    int id = 0;                                  // of this server, in maps
    comm::ControlAddress identity{};             // its certificates, for other servers; none on one host
    std::string host{};                          // its name, as in maps
    std::filesystem::path logs{};                // folder for the logs of updates; empty: none are kept
    std::size_t memory_limit = std::size_t(-1);  // bytes, of all jobs
    std::size_t job_limit = std::size_t(-1);     // bytes, of one
    int jobs_limit = 64;
    std::chrono::milliseconds lease{0};  // a job that nobody speaks for so long is closed; 0: none is
    Refusals::Options refusals{};
    // Newcomers have all that this map gives them of ours, and backups all of what we hand over.
    std::function<void(std::int64_t epoch)> on_settled{};
    // This backup does not take what it is sent, by the map of this epoch: it has to be replaced.
    std::function<void(int server, std::int64_t epoch)> on_apart{};
  };
  explicit Service(Options options);
  ~Service() override;

  // Which servers have what, from now on; an older map than the present one is ignored. Until the first one
  // everything is refused.
  void set_map(const ServerMap& map);

  void handle(comm::ExchangeServer::Request request) override;
  void gone(std::uint64_t connection) override;

  std::int64_t refused() const { return refused_; }  // requests, so far
  std::size_t jobs() const { return spaces().size(); }
  std::size_t bytes() const { return memory_->taken(); }  // that they take up

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
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<const Roles> roles_;
  std::map<std::uint64_t, std::shared_ptr<Space>> spaces_;
  std::map<std::string, std::uint64_t> by_job_;
  std::deque<std::string> closed_;  // the last jobs that are over, whether they were here or not
  std::mutex changing_;             // one map, and one job that comes, at a time; guards the next
  int jobs_seen_ = 0;
  std::vector<std::shared_ptr<BackupLink>> links_;  // all that may be in use: none ends on its own thread
  std::jthread filling_;
  std::jthread watch_;  // last
};

}  // namespace distbelief::server
