#include "distbelief/cli/standing_servers.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/commands/control_commands.h"
#include "distbelief/cli/commands/worker_command.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/cli/run_folder.h"
#include "distbelief/cli/supervised_run.h"
#include "distbelief/cluster/fleet.h"
#include "distbelief/cluster/run_place.h"
#include "distbelief/comm/rpc/control_client.h"
#include "distbelief/report/summary.h"
#include "distbelief/server/client/close_job.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kStandingAnswer{10};

struct StandingFlags {
  std::string folder;
  int servers = 2;
  std::string hosts;
  std::string certs;
  std::size_t memory_mb = 0;  // 0: no limit
  std::size_t job_mb = 0;
  int jobs = 64;
  double lease_minutes = 10;
};

std::vector<std::string> addresses_in(const std::string& text) {
  std::vector<std::string> targets;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');)
    if (!word.empty()) targets.push_back(word);
  return targets;
}

void require_settings(const StandingFlags& flags) {
  if (flags.hosts.empty() || !flags.certs.empty()) return;
  throw Error(
      ErrorCode::kBadInput,
      "servers on several hosts prove to runs of others who they are: make certificates with distbelief "
      "certs FOLDER, and give --certs FOLDER here and elastic.certs to the runs");
}

std::vector<std::string> limits_of(const StandingFlags& flags) {
  std::vector<std::string> parts{"--jobs-limit", std::to_string(flags.jobs), "--lease",
                                 fmt::format("{}", 60 * flags.lease_minutes)};
  if (flags.memory_mb > 0)
    parts.insert(parts.end(), {"--memory-limit", std::to_string(flags.memory_mb << 20)});
  if (flags.job_mb > 0) parts.insert(parts.end(), {"--job-limit", std::to_string(flags.job_mb << 20)});
  return parts;
}

int serve_standing(const StandingFlags& flags) {
  require_settings(flags);
  cluster::require_short_place();
  const fs::path folder = fs::absolute(flags.folder);
  if (fs::exists(folder / "job.toml") || is_launched(folder))
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is the folder of a run; give the servers one of their own", folder.string()));
  if (is_living(folder))
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("servers stand at {0} already; stop them with: distbelief stop {0}", flags.folder));
  put_earlier_logs_aside(folder / "servers");
  fs::create_directories(folder / "logs");
  report::write_json_atomically(folder / kServersFile, {{"servers", flags.servers},
                                                        {"hosts", flags.hosts},
                                                        {"memory_mb", flags.memory_mb},
                                                        {"job_mb", flags.job_mb},
                                                        {"jobs", flags.jobs},
                                                        {"lease_minutes", flags.lease_minutes}});
  Config config;
  config.elastic.certs = flags.certs.empty() ? "" : fs::absolute(flags.certs).string();
  cluster::FleetOptions options{
      .hosts = flags.hosts.empty() ? std::vector<cluster::HostSlots>() : cluster::parse_hosts(flags.hosts),
      .certs = config.elastic.certs,
      .servers = flags.servers,
      .server_command =
          [&](const cluster::FleetProcess& process) {
            std::vector<std::string> command = server_command(folder, config, process);
            const std::vector<std::string> limits = limits_of(flags);
            command.insert(command.end(), limits.begin(), limits.end());
            return command;
          },
      .run_dir = folder,
      .place = cluster::place_of(folder)};
  options.launch.isa = cluster::pinned_isa();
  fmt::print(
      "parameter servers: use them with distbelief train --servers-at {0}; end them with distbelief stop "
      "{0}\n",
      flags.folder);
  std::fflush(stdout);
  return cluster::supervise_fleet(options, Watch().interrupted());
}

}  // namespace

std::vector<std::string> targets_of_standing(const std::string& place) {
  if (!fs::is_directory(place)) {
    std::vector<std::string> targets = addresses_in(place);
    for (const std::string& target : targets)
      if (target.find(':') == std::string::npos)
        throw Error(ErrorCode::kBadInput,
                    fmt::format("--servers-at {}: neither the folder of distbelief servers nor addresses "
                                "(unix:/path or host:port)",
                                place));
    return targets;
  }
  if (!is_living(place))
    throw Error(ErrorCode::kUnavailable,
                fmt::format("no servers stand at {0}; start them with: distbelief servers {0}", place));
  const comm::CommandReply reply =
      comm::call_supervisor({.target = "unix:" + cluster::place_of(place).socket.string()},
                            {.name = "status", .value = 0, .text = {}}, kStandingAnswer);
  std::vector<std::string> targets;
  const nlohmann::json status = parse_json(reply.text, "the answer of " + place);
  for (const nlohmann::json& server : status.at("servers"))
    if (server.at("state") == "serving") targets.push_back(server.at("target"));
  if (targets.empty())
    throw Error(ErrorCode::kUnavailable,
                fmt::format("the servers at {} are not ready yet; try again", place));
  return targets;
}

std::vector<std::string> present_targets(const Config& config, const std::string& place,
                                         const std::vector<std::string>& known) {
  try {
    if (fs::is_directory(place)) return targets_of_standing(place);
    std::vector<comm::ControlAddress> servers;
    for (const std::string& target : known) servers.push_back(server_address(config, target));
    std::vector<std::string> targets;
    for (const server::ServerMap::Server& server : server::find_map(servers).servers)
      targets.push_back(server.target);
    return targets;
  } catch (const Error& error) {
    spdlog::warn("{}", error.what());
    return known;
  }
}

std::string draw_job_name(const std::string& run) {
  std::random_device device;
  return fmt::format("{}-{:08x}{:08x}{:08x}{:08x}", run, device(), device(), device(), device());
}

void add_servers(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<StandingFlags>();
  CLI::App* command =
      app.add_subcommand("servers", "run parameter servers that several runs share")->group(kExpertGroup);
  command
      ->add_option("folder", flags->folder, "folder for the servers' logs; runs find the servers through it")
      ->required();
  command->add_option("--servers", flags->servers, "number of servers (default: 2)")
      ->check(CLI::Range(1, 64));
  command->add_option("--hosts", flags->hosts, "hosts of the servers: a,b");
  command->add_option("--certs", flags->certs,
                      "certificates for several hosts: the folder of `distbelief certs`");
  command->add_option("--memory-mb", flags->memory_mb,
                      "memory limit of each server for all jobs, in MB (default: no limit)");
  command->add_option("--job-mb", flags->job_mb,
                      "memory limit of each server for one job, in MB (default: no limit)");
  command->add_option("--jobs", flags->jobs, "most jobs at a time (default: 64)")
      ->check(CLI::Range(1, 65536));
  command
      ->add_option("--lease-minutes", flags->lease_minutes,
                   "close a job that had no replica for this many minutes; 0: never (default: 10)")
      ->check(CLI::Range(0.0, 1e6));
  command->footer(
      "Examples:\n"
      "  distbelief servers standing --servers 3 --memory-mb 8000 &\n"
      "  distbelief train job.toml --set parallel.sync=parameter_server --servers-at standing\n"
      "  distbelief status standing; distbelief scale standing --servers 5; distbelief stop standing");
  command->callback([=, &run] { run = [=] { return serve_standing(*flags); }; });
}

}  // namespace distbelief::cli
