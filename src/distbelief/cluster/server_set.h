#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/cluster/cohort.h"
#include "distbelief/cluster/dispatch.h"
#include "distbelief/cluster/fleet.h"
#include "distbelief/server/client/server_map.h"

namespace distbelief::cluster {

// The reason why a run cannot continue.
struct FleetFailure {
  std::string why{};
  int code = 1;
};

// The parameter servers of a run: starts them, assigns parts to them, and replaces lost ones. The fleet's
// lock protects it.
class ServerSet {
 public:
  struct Options {
    int servers = 1;
    std::vector<HostSlots> hosts{};  // empty: this machine
    std::function<std::vector<std::string>(const FleetProcess&)> command{};
    std::filesystem::path run_dir{};
    int losses_allowed = 0;  // per hour
    // A server is lost when it is silent for longer.
    Cohort::Patience patience{.silence = std::chrono::minutes(1), .first_word = std::chrono::minutes(2)};
  };
  ServerSet(Options options, Dispatch& dispatch);

  void start();
  void hear(const comm::WorkerReport& report);
  void lost(int launch);
  // Ignores a silence in which the supervisor itself did not run.
  void excuse(std::chrono::steady_clock::duration absence);
  // Handles all changes since the last call.
  std::optional<FleetFailure> look();
  // All servers of the start listen and know their parts.
  bool are_ready() const { return map_.epoch > 0; }
  std::vector<std::string> targets() const;
  std::int64_t epoch() const { return map_.epoch; }
  // Changes the number of servers. Newcomers get their share; leaving servers first hand theirs over.
  comm::CommandReply scale(std::int64_t servers);
  nlohmann::json status() const;
  void end();

 private:
  struct Server {
    int launch = 0;  // also its id in maps
    std::string host{};
    std::unique_ptr<Child> child{};
    std::int64_t pid = 0;
    server::ServerMap::Server place{};  // set once it listens
    bool is_mapped = false;
    bool is_lost = false;                            // its connection is closed
    bool is_leaving = false;                         // it is to hand over its parts and end
    std::int64_t settled = 0;                        // epoch of the last map that it has fully carried out
    std::chrono::steady_clock::time_point heard{};   // last report, or start
    nlohmann::json said = nlohmann::json::object();  // its last counts
  };
  void start_one();
  void take_apart(const Server& speaker, const comm::WorkerReport& report);
  void keep_count();
  bool has_left(const Server& server) const { return server.is_leaving && !server.is_mapped; }
  void look_for_silence();
  bool is_lossy();
  std::optional<server::ServerMap> next_map(std::string& why) const;
  std::string next_host() const;
  void publish(const server::ServerMap& map, const std::string& why);
  std::optional<FleetFailure> lose(std::size_t index);
  void steer();

  Options options_;
  Dispatch& dispatch_;
  std::vector<Server> servers_;
  server::ServerMap map_;                                         // epoch 0: none yet
  std::map<std::string, int> losses_;                             // per host
  std::deque<std::chrono::steady_clock::time_point> loss_times_;  // in the last hour
  bool lacks_copies_ = false;                                     // already reported, with no change since
};

}  // namespace distbelief::cluster
