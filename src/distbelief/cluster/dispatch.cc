#include "distbelief/cluster/dispatch.h"

#include <fmt/format.h>
#include <signal.h>

#include "distbelief/base/error.h"
#include "distbelief/cluster/own_address.h"
#include "distbelief/cluster/supervisor.h"
#include "distbelief/comm/rpc/certificates.h"

namespace distbelief::cluster {
namespace {

// Certificates made for a run must outlive the longest run.
constexpr std::chrono::days kFleetCertificates{3650};

}  // namespace

Dispatch::Dispatch(Options options)
    : options_(std::move(options)),
      events_(options_.run_dir / "events.jsonl"),
      control_("unix:" + options_.place.socket.string()) {}

void Dispatch::listen(comm::ControlServer::Handler& handler) {
  server_.emplace(comm::ControlAddress{.target = control_}, handler);
  if (!is_local()) listen_to_hosts(handler);
}

// Processes on other hosts connect over TCP with certificates: the user's, or ones made for this run only.
void Dispatch::listen_to_hosts(comm::ControlServer::Handler& handler) {
  std::filesystem::path folder = options_.certs;
  if (folder.empty()) {
    own_certs_ = folder = options_.place.folder / kCertificatesFolder;
    std::filesystem::remove_all(folder);  // left by a supervisor that was killed
    comm::make_certificates(folder, kFleetCertificates);
  }
  comm::ControlAddress address = comm::secure_address("0.0.0.0:0", folder, "supervisor");
  address.silence = options_.silence;
  far_server_.emplace(address, handler);
  const std::string target = far_server_->target();
  const std::string own = options_.address.empty() ? own_address(options_.hosts) : options_.address;
  control_ = own + target.substr(target.rfind(':'));
}

std::string Dispatch::address_of(const std::string& host) const {
  const std::string address = host_address(host);
  if (!address.starts_with("127.")) return address;
  return options_.address.empty() ? own_address(options_.hosts) : options_.address;
}

std::unique_ptr<Child> Dispatch::start_world(const Start& start) {
  LaunchOptions launch = options_.launch;
  launch.workers = start.workers;
  if (!start.host.empty()) launch.hosts = {{start.host, start.workers}};
  // Launchers that create and remove the same folder at the same time disturb each other.
  launch.session_folder = options_.place.launcher / std::to_string(start.launch);
  launch.command = start.command;
  std::vector<std::string> secrets;
  if (!own_certs_.empty()) {
    secrets = {fmt::format("{}={}", kCertificatesVariable,
                           comm::pack_certificates(comm::secure_address("", own_certs_, start.role)))};
    launch.exported = {kCertificatesVariable};
  }
  return std::make_unique<Child>(Child::Options{
      .command = launch_command(launch), .death_signal = SIGUSR1, .environment = std::move(secrets)});
}

std::unique_ptr<Child> Dispatch::start_process(const Start& start) {
  if (!start.host.empty()) return start_world(start);
  return std::make_unique<Child>(Child::Options{.command = start.command, .death_signal = SIGKILL});
}

void Dispatch::order(int launch, int rank, const comm::WorkerOrder& order) {
  if (!server_) return;
  (far_server_ ? *far_server_ : *server_).order(launch, rank, order);
}

void Dispatch::say(const std::string& line) const {
  std::fflush(stdout);
  fmt::print(stderr, "distbelief: {}\n", line);
}

void Dispatch::event(const std::string& kind, nlohmann::json details) {
  try {
    events_.append(report::event_line(kind, std::move(details)));
  } catch (const Error& error) {  // a full disk does not end a run
    say(error.what());
  }
}

void Dispatch::close() {
  if (far_server_) far_server_->close();
  if (server_) server_->close();
}

}  // namespace distbelief::cluster
