#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "distbelief/base/error.h"
#include "distbelief/base/memory_limit.h"
#include "distbelief/cli/commands.h"
#include "distbelief/comm/rpc/control_client.h"
#include "distbelief/server/service.h"
#include "distbelief/train/worker_log.h"

// A parameter server of a run: what `train` starts when parallel.sync = "parameter_server".
namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

struct ServerFlags {
  std::string run_dir;
  std::string control;
  std::string listen;
  int launch = 1;
};

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
  spdlog::set_default_logger(train::open_log(flags.run_dir, fmt::format("server-{}", flags.launch)));
  std::atomic<comm::ControlClient*> tie{nullptr};
  comm::WorkerReport report{.generation = flags.launch, .rank = 0, .pid = getpid(), .state = "ready"};
  const std::uint64_t memory = memory_limit();
  server::Service service({.id = flags.launch,
                           .logs = fs::path(flags.run_dir) / "servers",
                           .memory_limit = memory > 0 ? std::size_t(memory) : std::size_t(-1),
                           .on_filled = [&tie, report](std::int64_t epoch) {
                             comm::WorkerReport filled = report;
                             filled.state = "filled";
                             filled.step = epoch;
                             if (comm::ControlClient* const client = tie) client->report(filled);
                           }});
  comm::ExchangeServer exchange({.address = {.target = flags.listen}, .shared_limit = std::size_t{1} << 40},
                                service);
  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false;
  const auto end = [&] {
    const std::lock_guard lock(mutex);
    ends = true;
    changed.notify_one();
  };
  comm::ControlClient control({.address = {.target = flags.control},
                               .on_order =
                                   [&](const comm::WorkerOrder& order) {
                                     if (order.kind == "stop") end();
                                     if (order.kind == "map") take_map(service, order.text);
                                   },
                               .on_lost = end});
  tie = &control;
  report.message = exchange.target();
  control.report(report);
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ends; });
  }
  tie = nullptr;
  exchange.close();
  const comm::ExchangeServer::Counts counts = exchange.counts();
  spdlog::info("{} connections, {} requests, {} refused, {} turned away, {} dropped", counts.connections,
               counts.requests, service.refused(), counts.turned_away, counts.dropped);
  report.state = "ended";
  control.report(report);
  control.close();
  return 0;
}

}  // namespace

void add_server(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<ServerFlags>();
  CLI::App* command = app.add_subcommand("server", "what train starts")->group("");
  command->add_option("--run-dir", flags->run_dir)->required();
  command->add_option("--control", flags->control)->required();
  command->add_option("--listen", flags->listen)->required();
  command->add_option("--launch", flags->launch);
  command->callback([=, &run] { run = [=] { return serve(*flags); }; });
}

}  // namespace distbelief::cli
