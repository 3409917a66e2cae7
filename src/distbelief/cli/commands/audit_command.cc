#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/base/text_lines.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/run_folder.h"
#include "distbelief/job/job_file.h"
#include "distbelief/run/audit.h"
#include "distbelief/run/prepared_job.h"
#include "distbelief/server/audit/log_check.h"

// Proves properties of a run from its logs.
namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

struct AuditFlags {
  std::string run_dir;
  bool json = false;
};

bool did_all(const fs::path& run_dir) {
  const nlohmann::json summary = read_summary(run_dir);
  return summary.is_object() && summary.value("status", "") == "done";
}

// The step where the run continued at its last start.
std::int64_t first_step_of(const fs::path& run_dir) {
  std::int64_t first = 0;
  for (TextLines events(run_dir / "events.jsonl"); events.next();) {
    const nlohmann::json event = json_or_discarded(events.line());
    if (event.is_object() && event.value("event", nlohmann::json()) == "served")
      first = event.value("first_step", std::int64_t{0});
  }
  return first;
}

// The tickets of a run that ended by itself; a stopped run did only a part of its work. Servers count from
// the step where the run continued.
std::int64_t tickets_of(const fs::path& run_dir, const run::PreparedJob& job) {
  const bool takes_all = is_decomposed(job.config.parallel) || job.config.parallel.mode == "sandblaster";
  const std::int64_t first = takes_all ? 0 : first_step_of(run_dir);
  const std::int64_t each = takes_own_steps(job.config.parallel) ? job.config.parallel.push_every : 1;
  return (job.total_steps() - first / each * each + each - 1) / each;
}

server::LogProof prove(const fs::path& run_dir, const run::PreparedJob& job) {
  const ParallelConfig& parallel = job.config.parallel;
  server::LogPromise promise;
  if (did_all(run_dir)) promise.tickets = tickets_of(run_dir, job);
  if (parallel.mode == "bounded") promise.staleness = parallel.staleness;
  if (is_decomposed(parallel))
    return server::check_sub_networks(run_dir, int(parallel.sub_networks), promise);
  const server::RunLogs logs = server::read_run_logs(run_dir);
  // A search ends when it converges, so its evaluations are counted in the logs.
  if (promise.tickets && parallel.mode == "sandblaster")
    promise.tickets = server::evaluations_in(logs) * job.steps_per_epoch();
  return server::check_logs(logs, promise);
}

int audit_servers(const AuditFlags& flags, const run::PreparedJob& job) {
  const server::LogProof proof = prove(flags.run_dir, job);
  if (flags.json)
    fmt::print("{}\n", nlohmann::json{{"proven", proof.proven},
                                      {"slices", proof.slices},
                                      {"updates", proof.updates},
                                      {"commands", proof.commands},
                                      {"acknowledged", proof.acknowledged},
                                      {"late", proof.late},
                                      {"begins", proof.begins},
                                      {"row_pushes", proof.row_pushes},
                                      {"undone", proof.undone},
                                      {"finding", proof.finding}}
                           .dump());
  else
    fmt::print("{}\n", proof.finding);
  return proof.proven ? 0 : 1;
}

int audit(const AuditFlags& flags) {
  require_run_dir(flags.run_dir);
  if (is_launched(flags.run_dir))
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is the run of a program of yours: only distbelief train records an audit",
                            flags.run_dir));
  const Config config = job::read_job_file(fs::path(flags.run_dir) / "job.toml").config;
  const run::PreparedJob job = run::prepare_job(config);
  if (has_servers(config.parallel)) return audit_servers(flags, job);
  const run::AuditResult result = run::check_audit(
      flags.run_dir, job.data.train->size(), std::uint64_t(job.steps_per_epoch()), config.parallel.lanes);
  if (flags.json)
    fmt::print("{}\n", nlohmann::json{{"proven", result.proven},
                                      {"steps", result.steps},
                                      {"epochs", result.epochs},
                                      {"redone", result.redone},
                                      {"finding", result.finding}}
                           .dump());
  else
    fmt::print("{}\n", result.finding);
  return result.proven ? 0 : 1;
}

}  // namespace

void add_audit(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<AuditFlags>();
  CLI::App* command = app.add_subcommand("audit", "prove that a run counted each sample and each update once")
                          ->group(kExpertGroup);
  command->add_option("run", flags->run_dir, "run folder")->required();
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "With report.audit = true, the audit proves that every epoch saw each sample once.\n"
      "With parameter servers, it proves that each update counts once and that all copies agree.\n"
      "Example:\n  distbelief audit runs/my-run");
  command->callback([=, &run] { run = [=] { return audit(*flags); }; });
}

}  // namespace distbelief::cli
