#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "distbelief/base/error.h"
#include "distbelief/base/host_name.h"
#include "distbelief/base/memory_limit.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cluster/supervisor.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/comm/rpc/control_client.h"
#include "distbelief/report/run_log.h"
#include "distbelief/server/service/service.h"

// A parameter server of a run: `train` starts it when parallel.sync = "parameter_server".
namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

struct ServerFlags {
  std::string run_dir;
  std::string control;
  std::string listen;
  int launch = 1;
  std::string address;  // this host's address as seen by others; empty: there is only one host
  std::string certs;    // empty: the run's own, from the environment
  double silence = 5;
  std::size_t memory_limit = std::size_t(-1);  // bytes
  std::size_t job_limit = std::size_t(-1);
  int jobs_limit = 64;
  double lease = 0;  // seconds; 0: jobs stay until they are closed
};

// Between hosts, uses the user's certificates, or those of the run, which it removes from the environment.
comm::ControlAddress identity_of(const ServerFlags& flags) {
  if (flags.address.empty()) return {};
  comm::ControlAddress identity;
  if (!flags.certs.empty()) {
    identity = comm::secure_address("", flags.certs, "server");
  } else {
    const char* word = std::getenv(cluster::kCertificatesVariable);
    identity = comm::unpack_certificates("", word == nullptr ? "" : word);
    unsetenv(cluster::kCertificatesVariable);
  }
  identity.silence = std::chrono::milliseconds(std::int64_t(1e3 * flags.silence));
  return identity;
}

comm::ControlAddress with_target(comm::ControlAddress identity, const std::string& target) {
  identity.target = target;
  return identity;
}

// RAII folder for a server's socket on a host other than the supervisor's: created, and removed at the end.
class SocketFolder {
 public:
  explicit SocketFolder(const std::string& listen)
      : folder_(fs::path(listen.substr(listen.find(':') + 1)).parent_path()),
        is_ours_(fs::create_directories(folder_)) {
    if (is_ours_) fs::permissions(folder_, fs::perms::owner_all);
  }
  ~SocketFolder() {
    std::error_code ignored;  // other servers may still have sockets in it
    if (is_ours_) fs::remove(folder_, ignored);
  }
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;

 private:
  fs::path folder_;
  bool is_ours_;
};

// A server's endpoints: a Unix socket with shared memory for this host, TLS for other hosts.
class Ends {
 public:
  // `memory`: limit on memory that replicas of this host share with it.
  Ends(const ServerFlags& flags, const comm::ControlAddress& identity, std::size_t memory,
       server::Service& service)
      : near_({.address = {.target = flags.listen},
               .shared_limit = std::min(memory, kSharedLimit),
               .shared_limit_of_one = std::min(memory, kSharedLimit) / kSharesAtLeast,
               .shared_deadline = kSharedDeadline},
              service) {
    if (flags.address.empty()) return;
    far_.emplace(comm::ExchangeServer::Options{.address = with_target(identity, "0.0.0.0:0"),
                                               .first_connection = kFarConnections},
                 service);
    const std::string target = far_->target();
    far_target_ = flags.address + target.substr(target.rfind(':'));
  }
  server::ServerMap::Server place() const {
    if (!far_) return {.target = near_.target(), .host = host_name()};
    return {.target = far_target_, .near = near_.target(), .host = host_name()};
  }
  void close() {
    near_.close();
    if (far_) far_->close();
  }
  comm::ExchangeServer::Counts counts() const {
    const comm::ExchangeServer::Counts near = near_.counts();
    const comm::ExchangeServer::Counts far = far_ ? far_->counts() : comm::ExchangeServer::Counts{};
    return {.connections = near.connections + far.connections,
            .turned_away = near.turned_away + far.turned_away,
            .dropped = near.dropped + far.dropped,
            .requests = near.requests + far.requests};
  }

 private:
  static constexpr std::size_t kSharedLimit = std::size_t{1} << 40;
  // A replica shares about the size of its parameters, and it and the servers hold more copies of them.
  static constexpr std::size_t kSharesAtLeast = 4;
  static constexpr std::chrono::seconds kSharedDeadline{30};
  static constexpr std::uint64_t kFarConnections = std::uint64_t{1} << 48;
  comm::ExchangeServer near_;
  std::optional<comm::ExchangeServer> far_;
  std::string far_target_;
};

constexpr std::chrono::milliseconds kReportLife{250};

void take_map(server::Service& service, const std::string& text) {
  try {
    service.set_map(server::map_from_text(text));
  } catch (const Error& error) {
    spdlog::error("{}", error.what());
  }
}

// Serves until it is told to stop, or the supervisor is gone.
int serve(const ServerFlags& flags) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == 1) return 1;  // the supervisor is gone already
  const std::string name = fmt::format("server-{}", flags.launch);
  spdlog::set_default_logger(report::open_log(flags.run_dir, name));
  // The log names jobs, and a job's name is enough to join it, so only the user may read the log.
  fs::permissions(fs::path(flags.run_dir) / "logs" / (name + ".log"),
                  fs::perms::owner_read | fs::perms::owner_write);
  std::atomic<comm::ControlClient*> tie{nullptr};
  comm::WorkerReport report{.generation = flags.launch, .rank = 0, .pid = getpid(), .state = "ready"};
  const comm::ControlAddress identity = identity_of(flags);
  const SocketFolder folder(flags.listen);
  const std::uint64_t machine = memory_limit();
  const std::size_t memory =
      machine > 0 ? std::min<std::size_t>(machine, flags.memory_limit) : flags.memory_limit;
  server::Service service({.id = flags.launch,
                           .identity = identity,
                           .host = host_name(),
                           .logs = fs::path(flags.run_dir) / "servers",
                           .memory_limit = memory,
                           .job_limit = flags.job_limit,
                           .jobs_limit = flags.jobs_limit,
                           .lease = std::chrono::milliseconds(std::int64_t(1e3 * flags.lease)),
                           .on_settled =
                               [&tie, report](std::int64_t epoch) {
                                 comm::WorkerReport settled = report;
                                 settled.state = "settled";
                                 settled.step = epoch;
                                 if (comm::ControlClient* const client = tie) client->report(settled);
                               },
                           .on_apart =
                               [&tie, report](int other, std::int64_t epoch) {
                                 comm::WorkerReport apart = report;
                                 apart.state = "apart";
                                 apart.step = epoch;
                                 apart.message = std::to_string(other);
                                 if (comm::ControlClient* const client = tie) client->report(apart);
                               }});
  Ends exchange(flags, identity, memory, service);
  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false;
  const auto end = [&] {
    const std::lock_guard lock(mutex);
    ends = true;
    changed.notify_one();
  };
  comm::ControlClient control({.address = with_target(identity, flags.control),
                               .on_order =
                                   [&](const comm::WorkerOrder& order) {
                                     if (order.kind == "stop") end();
                                     if (order.kind == "map") take_map(service, order.text);
                                   },
                               .on_lost = end});
  tie = &control;
  report.host = host_name();
  report.message = server::to_text(exchange.place());
  control.report(report);
  report.state = "serving";
  report.message.clear();
  for (std::unique_lock lock(mutex); !changed.wait_for(lock, kReportLife, [&] { return ends; });) {
    const comm::ExchangeServer::Counts counts = exchange.counts();
    report.message = nlohmann::json{{"refused", service.refused()},
                                    {"dropped", counts.dropped},
                                    {"turned_away", counts.turned_away},
                                    {"jobs", service.jobs()},
                                    {"bytes", service.bytes()}}
                         .dump();
    control.report(report);
  }
  report.message.clear();
  tie = nullptr;
  exchange.close();
  const comm::ExchangeServer::Counts counts = exchange.counts();
  spdlog::info("{} connections, {} requests, {} turned away, {} dropped, {} refused", counts.connections,
               counts.requests, counts.turned_away, counts.dropped, service.refused());
  report.state = "ended";
  control.report(report);
  control.close();
  return 0;
}

}  // namespace

void add_server(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<ServerFlags>();
  CLI::App* command = app.add_subcommand("server", "run a parameter server of train")->group(kHiddenGroup);
  command->add_option("--run-dir", flags->run_dir)->required();
  command->add_option("--control", flags->control)->required();
  command->add_option("--listen", flags->listen)->required();
  command->add_option("--launch", flags->launch);
  command->add_option("--address", flags->address);
  command->add_option("--certs", flags->certs);
  command->add_option("--silence", flags->silence);
  command->add_option("--memory-limit", flags->memory_limit);
  command->add_option("--job-limit", flags->job_limit);
  command->add_option("--jobs-limit", flags->jobs_limit);
  command->add_option("--lease", flags->lease);
  command->callback([=, &run] { run = [=] { return serve(*flags); }; });
}

}  // namespace distbelief::cli
