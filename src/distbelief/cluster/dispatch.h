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

// The process launcher of a supervisor that starts processes one by one: numbers the launches, gives
// processes an address to report to, sends orders, and records events. The caller's lock protects it.
class Dispatch {
 public:
  struct Options {
    std::filesystem::path run_dir{};
    RunPlace place{};
    LaunchOptions launch{};          // for every process, without workers, hosts and command
    std::vector<HostSlots> hosts{};  // empty: this machine alone
    std::string address{};           // of this machine, as seen by those hosts; empty: detected
    std::filesystem::path certs{};   // empty: the run creates its own
    std::chrono::milliseconds silence{5000};
  };
  explicit Dispatch(Options options);

  // Starts accepting commands and reports. Throws Error as ControlServer does.
  void listen(comm::ControlServer::Handler& handler);
  const std::string& control() const { return control_; }  // the address that processes report to
  bool is_local() const { return options_.hosts.empty(); }
  std::string address_of(const std::string& host) const;  // as seen by other hosts

  struct Start {
    int launch = 0;
    std::string role = "worker";  // or "server"
    std::string host{};           // empty: this machine
    int workers = 1;
    std::vector<std::string> command{};
  };
  int next_launch() { return ++launches_; }
  // Starts an MPI world through its launcher.
  std::unique_ptr<Child> start_world(const Start& start);
  // Starts one process; on this machine without a launcher.
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
  std::filesystem::path own_certs_;  // empty: the user's certificates are used, or none
  int launches_ = 0;
  std::optional<comm::ControlServer> server_;
  std::optional<comm::ControlServer> far_server_;
};

}  // namespace distbelief::cluster
