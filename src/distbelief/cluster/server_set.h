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

// Why a run cannot go on.
struct FleetFailure {
  std::string why{};
  int code = 1;
};

// The parameter servers of a run: starts them, decides who has what, and replaces those that are lost. Used
// with the fleet's lock.
class ServerSet {
 public:
  struct Options {
    int servers = 1;
    std::vector<HostSlots> hosts{};  // empty: this machine
    std::function<std::vector<std::string>(const FleetProcess&)> command{};
    std::filesystem::path run_dir{};
    int losses_allowed = 0;  // in an hour
    // With a server: one that says nothing for longer counts as lost.
    Cohort::Patience patience{.silence = std::chrono::minutes(1), .first_word = std::chrono::minutes(2)};
  };
  ServerSet(Options options, Dispatch& dispatch);

  void start();
  void hear(const comm::WorkerReport& report);
  void lost(int launch);
  // Nobody could be heard for so long: the supervisor did not run.
  void excuse(std::chrono::steady_clock::duration absence);
  // What has changed is seen to.
  std::optional<FleetFailure> look();
  // All that were started at first listen, and know what they have.
  bool are_ready() const { return map_.epoch > 0; }
  std::vector<std::string> targets() const;
  std::int64_t epoch() const { return map_.epoch; }
  // So many servers from now on: newcomers get their share, those who leave hand theirs over first.
  comm::CommandReply scale(std::int64_t servers);
  nlohmann::json status() const;
  void end();

 private:
  struct Server {
    int launch = 0;  // its id in maps
    std::string host{};
    std::unique_ptr<Child> child{};
    std::int64_t pid = 0;
    server::ServerMap::Server place{};  // once it listens
    bool is_mapped = false;
    bool is_lost = false;                            // it has hung up
    bool is_leaving = false;                         // it is to hand over what it has, and to end
    std::int64_t settled = 0;                        // epoch of the map that it has done everything for
    std::chrono::steady_clock::time_point heard{};   // or started
    nlohmann::json said = nlohmann::json::object();  // what it has counted, last
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
  std::map<std::string, int> losses_;                             // by host
  std::deque<std::chrono::steady_clock::time_point> loss_times_;  // of the last hour
  bool lacks_copies_ = false;                                     // said so, and nothing since
};

}  // namespace distbelief::cluster
