#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/cluster/child.h"
#include "distbelief/cluster/launch.h"
#include "distbelief/cluster/run_place.h"
#include "distbelief/comm/rpc/control_server.h"
#include "distbelief/report/metrics.h"

namespace distbelief::cluster {

// A supervisor's wires to processes that are started one by one: numbers of launches, where they report, what
// they are ordered, and the record of what happened. Used with the lock of whoever has it.
class Dispatch {
 public:
  struct Options {
    std::filesystem::path run_dir{};
    RunPlace place{};
    LaunchOptions launch{};          // of every process, without workers, hosts and command
    std::vector<HostSlots> hosts{};  // empty: this machine alone
    std::string address{};           // of this machine, for those; empty: found out
    std::filesystem::path certs{};   // empty: the run makes its own
    std::chrono::milliseconds silence{5000};
  };
  explicit Dispatch(Options options);

  // From now on commands and reports come. Throws Error, as ControlServer does.
  void listen(comm::ControlServer::Handler& handler);
  const std::string& control() const { return control_; }  // where processes report
  bool is_local() const { return options_.hosts.empty(); }
  std::string address_of(const std::string& host) const;  // by which other hosts reach it

  struct Start {
    int launch = 0;
    std::string role = "worker";  // or "server"
    std::string host{};           // empty: this machine
    int workers = 1;
    std::vector<std::string> command{};
  };
  int next_launch() { return ++launches_; }
  // Under the launcher of an MPI world.
  std::unique_ptr<Child> start_world(const Start& start);
  // One process, on this machine without any launcher.
  std::unique_ptr<Child> start_process(const Start& start);

  void order(int launch, int rank, const comm::WorkerOrder& order);
  void say(const std::string& line) const;
  void event(const std::string& kind, nlohmann::json details);
  void close();

 private:
  void listen_to_hosts(comm::ControlServer::Handler& handler);

  Options options_;
  report::MetricsLog events_;
  std::string control_;
  std::filesystem::path own_certs_;  // empty: the user's are used, or none
  int launches_ = 0;
  std::optional<comm::ControlServer> server_;
  std::optional<comm::ControlServer> far_server_;
};

}  // namespace distbelief::cluster
