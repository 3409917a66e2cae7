#include "distbelief/cli/commands/control_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/run_folder.h"
#include "distbelief/cluster/run_place.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/comm/rpc/control_client.h"

// Commands about a running run, or one that has ended.
namespace distbelief::cli {

namespace fs = std::filesystem;

bool is_living(const fs::path& run_dir) {
  const cluster::RunPlace place = cluster::place_of(run_dir);
  return fs::exists(place.socket) && !cluster::is_abandoned(place);
}

namespace {

constexpr std::chrono::seconds kAnswerDeadline{10};

struct ControlFlags {
  std::string run_dir;
  int workers = 0;
  int threads = 0;
  int servers = 0;
  int worker = -1;
  bool json = false;
};

// The state of an unfinished run, as far as its folder shows it.
std::string where_it_stands(const fs::path& run_dir) {
  std::string text;
  const nlohmann::json summary = read_json(run_dir / "summary.json");
  if (summary.is_object())
    text +=
        fmt::format("; {} at step {}", summary.value("status", ""), summary.value("steps", std::int64_t{0}));
  if (const std::int64_t step = newest_checkpoint(run_dir); step >= 0)
    text += fmt::format("; newest checkpoint step {}", step);
  return text;
}

comm::CommandReply ask(const fs::path& run_dir, const comm::Command& command) {
  if (is_living(run_dir))
    return comm::call_supervisor({.target = "unix:" + cluster::place_of(run_dir).socket.string()}, command,
                                 kAnswerDeadline);
  if (const auto summary = summary_of_finished(run_dir))
    throw Error(ErrorCode::kUnavailable,
                fmt::format("{} is finished: {}, {} steps", run_dir.string(), summary->value("status", ""),
                            summary->value("steps", std::int64_t{0})));
  throw Error(ErrorCode::kUnavailable,
              fmt::format("{} is not being trained now{}; {}", run_dir.string(), where_it_stands(run_dir),
                          advice_after_interrupt(run_dir)));
}

int obey(const ControlFlags& flags, const comm::Command& command) {
  require_run_dir(flags.run_dir);
  const comm::CommandReply reply = ask(flags.run_dir, command);
  if (!reply.ok) throw Error(ErrorCode::kBadInput, reply.text);
  fmt::print("{}: {}\n", flags.run_dir, reply.text);
  return 0;
}

std::string step_text(const nlohmann::json& step) {
  return step.get<std::int64_t>() < 0 ? "none yet" : fmt::format("step {}", step.get<std::int64_t>());
}

std::string step_line(const nlohmann::json& status) {
  if (status["step"].get<std::int64_t>() < 0) return "no step yet";
  return fmt::format("step {}, epoch {}, loss {:.4f}, {:.0f} samples/s", status["step"].get<std::int64_t>(),
                     status["epoch"].get<std::int64_t>() + 1, status["loss"].get<double>(),
                     status["samples_per_second"].get<double>());
}

std::string straggler_mark(const nlohmann::json& worker) {
  if (!worker["straggler"].get<bool>()) return "";
  return fmt::format("  straggler: {:.1f} times as slow", worker["slowness"].get<double>());
}

// With parameter servers, ranks are counted within each replica.
std::string worker_name(const nlohmann::json& worker) {
  const int rank = worker["rank"].get<int>();
  return worker.contains("replica") ? fmt::format("{}.{}", worker["replica"].get<int>(), rank)
                                    : std::to_string(rank);
}

// The place of a worker that holds a part of its replica's network.
std::string place_mark(const nlohmann::json& workers, const nlohmann::json& worker) {
  const auto is_beside = [](const nlohmann::json& each) {
    return each.value("pipeline", 0) + each.value("tensor", 0) > 0;
  };
  if (std::none_of(workers.begin(), workers.end(), is_beside)) return "";
  return fmt::format("  place {} of the pipeline, {} of its group", worker.value("pipeline", 0),
                     worker.value("tensor", 0));
}

// Servers have 64 parts in all; a standing server also reports what its jobs use.
void show_servers(const nlohmann::json& servers) {
  if (servers.empty()) return;
  fmt::print("{:>6} {:>8} {:<16} {:<10} {:>8} {:>8} {:>5} {:>12} {:>8} {:>8}\n", "server", "pid", "host",
             "state", "primary", "backup", "jobs", "bytes", "refused", "dropped");
  for (const nlohmann::json& server : servers)
    fmt::print("{:>6} {:>8} {:<16} {:<10} {:>8} {:>8} {:>5} {:>12} {:>8} {:>8}\n",
               server["server"].get<int>(), server["pid"].get<std::int64_t>(),
               server["host"].get<std::string>(), server["state"].get<std::string>(),
               server["primary"].get<int>(), server["backup"].get<int>(), server["jobs"].get<std::int64_t>(),
               server["bytes"].get<std::int64_t>(), server["refused"].get<std::int64_t>(),
               server["dropped"].get<std::int64_t>() + server["turned_away"].get<std::int64_t>());
}

void show_status(const nlohmann::json& status) {
  fmt::print("{}: {}, generation {}, {} recoveries\n", status["run"].get<std::string>(),
             status["state"].get<std::string>(), status["generation"].get<int>(),
             status["recoveries"].get<int>());
  const nlohmann::json servers = status.value("servers", nlohmann::json::array());
  show_servers(servers);
  if (status["state"] == "serving") return;  // standing servers, without workers
  fmt::print("{}; newest {}checkpoint {}\n", step_line(status),
             servers.empty() ? fmt::format("snapshot {}, ", step_text(status["snapshot_step"])) : "",
             step_text(status["checkpoint_step"]));
  fmt::print("{:>6} {:>8} {:<16} {:<10} {:<9} {:>8} {:>10} {:>10}  lanes\n", "worker", "pid", "host", "state",
             "phase", "step", "step ms", "busy ms");
  for (const nlohmann::json& worker : status["workers"])
    fmt::print("{:>6} {:>8} {:<16} {:<10} {:<9} {:>8} {:>10.1f} {:>10.1f}  {}{}{}\n", worker_name(worker),
               worker["pid"].get<std::int64_t>(), worker["host"].get<std::string>(),
               worker["state"].get<std::string>(), worker["phase"].get<std::string>(),
               worker["step"].get<std::int64_t>(), 1e3 * worker["step_seconds"].get<double>(),
               1e3 * worker["busy_seconds"].get<double>(),
               fmt::join(worker["lanes"].get<std::vector<std::int64_t>>(), ","),
               place_mark(status["workers"], worker), straggler_mark(worker));
}

// Prints the status of a finished run.
int show_finished(const ControlFlags& flags, const nlohmann::json& summary) {
  const std::string how = summary.value("status", "");
  const auto steps = summary.value("steps", std::int64_t{0});
  const nlohmann::json accuracy = summary.value("test_accuracy", nlohmann::json());
  if (flags.json) {
    fmt::print("{}\n", nlohmann::json{{"run", flags.run_dir},
                                      {"state", "finished"},
                                      {"status", how},
                                      {"step", steps},
                                      {"test_accuracy", accuracy},
                                      {"checkpoint_step", newest_checkpoint(flags.run_dir)},
                                      {"workers", nlohmann::json::array()}}
                           .dump());
    return 0;
  }
  fmt::print(
      "{}: finished ({}), {} steps{}\n", flags.run_dir, how, steps,
      accuracy.is_number() ? fmt::format(", test accuracy {:.2f} %", 100 * accuracy.get<double>()) : "");
  return 0;
}

// Prints, for programs, the status of a run that has neither finished nor is being trained. The advice is
// printed separately.
void print_standstill(const ControlFlags& flags) {
  const nlohmann::json summary = read_json(fs::path(flags.run_dir) / "summary.json");
  const bool has_ended = summary.is_object();
  fmt::print("{}\n", nlohmann::json{{"run", flags.run_dir},
                                    {"state", "not running"},
                                    {"status", has_ended ? summary.value("status", "") : ""},
                                    {"step", has_ended ? summary.value("steps", std::int64_t{-1}) : -1},
                                    {"checkpoint_step", newest_checkpoint(flags.run_dir)},
                                    {"workers", nlohmann::json::array()}}
                         .dump());
}

int status(const ControlFlags& flags) {
  require_run_dir(flags.run_dir);
  if (!is_living(flags.run_dir)) {
    if (const auto summary = summary_of_finished(flags.run_dir)) return show_finished(flags, *summary);
    if (flags.json) print_standstill(flags);
  }
  const comm::CommandReply reply = ask(flags.run_dir, {.name = "status", .value = 0, .text = {}});
  if (flags.json)
    fmt::print("{}\n", reply.text);
  else
    show_status(parse_json(reply.text, "the supervisor's answer"));
  return 0;
}

// A command to one worker, or to the whole run (-1).
comm::Command about_worker(const char* name, int worker) {
  if (worker < 0) return {.name = name, .value = 0, .text = {}};
  return {.name = name, .value = worker, .text = "worker"};
}

int scale(const ControlFlags& flags) {
  if (flags.workers == 0 && flags.threads == 0 && flags.servers == 0)
    throw Error(ErrorCode::kBadInput, "scale to what? Give a number of workers, --threads or --servers");
  if (flags.servers > 0) obey(flags, {.name = "scale servers", .value = flags.servers, .text = {}});
  if (flags.workers == 0 && flags.threads == 0) return 0;
  return obey(flags, {.name = "scale", .value = flags.workers, .text = std::to_string(flags.threads)});
}

struct Verb {
  const char* name;
  const char* help;
  const char* example;
};

CLI::App* add_verb(CLI::App& app, const std::shared_ptr<ControlFlags>& flags, const Verb& verb) {
  CLI::App* command = app.add_subcommand(verb.name, verb.help)->group(kWhileItTrainsGroup);
  command->add_option("run", flags->run_dir, "run folder")->required();
  command->footer(fmt::format("Example:\n  {}", verb.example));
  return command;
}

}  // namespace

bool resume_living(const fs::path& run_dir, int worker) {
  if (!is_living(run_dir)) return false;
  try {
    const comm::CommandReply reply = ask(run_dir, about_worker("continue", worker));
    if (worker >= 0 && !reply.ok) throw Error(ErrorCode::kBadInput, reply.text);
    const std::string done = worker < 0 ? "it continues" : fmt::format("worker {} continues", worker);
    fmt::print("{} is being trained: {}\n", run_dir.string(), reply.ok ? done : reply.text);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    return false;  // its supervisor is gone
  }
}

void add_control(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<ControlFlags>();
  CLI::App* command = add_verb(app, flags,
                               {"status", "show workers, lanes, speed and newest saved state of a run",
                                "distbelief status runs/my-run --json"});
  command->add_flag("--json", flags->json, "print JSON");
  command->callback([=, &run] { run = [=] { return status(*flags); }; });

  command = add_verb(
      app, flags,
      {"scale", "change the number of workers, threads or parameter servers of a run",
       "distbelief scale runs/my-run 4\n  distbelief scale runs/my-run --threads 2\n  distbelief scale "
       "runs/my-run --servers 3"});
  command->add_option("workers", flags->workers, "number of workers")->check(CLI::Range(1, 4096));
  command->add_option("--threads", flags->threads, "lanes that each worker carries at a time")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--servers", flags->servers,
                   "number of parameter servers (parallel.sync = \"parameter_server\")")
      ->check(CLI::Range(1, 64));
  command->callback([=, &run] { run = [=] { return scale(*flags); }; });

  command = add_verb(app, flags,
                     {"pause", "pause a run, or one worker of it; distbelief resume continues it",
                      "distbelief pause runs/my-run\n  distbelief pause runs/my-run --worker 1"});
  command->add_option("--worker", flags->worker, "pause this worker only; the others carry its lanes")
      ->check(CLI::Range(0, 65535));
  command->callback([=, &run] { run = [=] { return obey(*flags, about_worker("pause", flags->worker)); }; });

  command = add_verb(app, flags, {"stop", "save and end a run", "distbelief stop runs/my-run"});
  command->callback(
      [=, &run] { run = [=] { return obey(*flags, {.name = "stop", .value = 0, .text = {}}); }; });
}

void add_certs(CLI::App& app, const Invocation&, Run& run) {
  auto folder = std::make_shared<std::string>();
  auto days = std::make_shared<int>(365);
  CLI::App* command =
      app.add_subcommand("certs", "make a certificate authority and certificates for several hosts")
          ->group(kExpertGroup);
  command->add_option("folder", *folder, "folder to write")->required();
  command->add_option("--days", *days, "days until the certificates expire (default: 365)")
      ->check(CLI::Range(1, 36500));
  command->footer("Example:\n  distbelief certs ~/.config/distbelief/certs --days 365");
  command->callback([=, &run] {
    run = [=] {
      comm::make_certificates(*folder, std::chrono::days(*days));
      fmt::print("{}: ca, supervisor, server, worker and operator; keep the .key files to yourself\n",
                 *folder);
      return 0;
    };
  });
}

}  // namespace distbelief::cli
