#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace distbelief::cli {

// The input that main() passes to every command.
struct Invocation {
  std::vector<std::string> arguments;  // the whole command line
  char** argv = nullptr;
};

// Groups of the commands in `distbelief --help`, as in docs/reference/commands.md.
inline constexpr const char* kStartGroup = "Start";
inline constexpr const char* kUseGroup = "Use";
inline constexpr const char* kWhileItTrainsGroup = "While it trains";
inline constexpr const char* kExpertGroup = "Expert";
inline constexpr const char* kHiddenGroup = "";  // the help leaves it out

// A function add_...() adds a command to the program. When the user chooses the command, it stores in `run`
// the function that returns the exit code.
using Run = std::function<int()>;
void add_train(CLI::App& app, const Invocation& invocation, Run& run);
void add_resume(CLI::App& app, const Invocation& invocation, Run& run);
void add_launch(CLI::App& app, const Invocation& invocation, Run& run);
void add_worker(CLI::App& app, const Invocation& invocation, Run& run);  // hidden: started by train
void add_server(CLI::App& app, const Invocation& invocation, Run& run);  // hidden: started by train
void add_servers(CLI::App& app, const Invocation& invocation, Run& run);
void add_eval(CLI::App& app, const Invocation& invocation, Run& run);
void add_nearest(CLI::App& app, const Invocation& invocation, Run& run);
void add_predict(CLI::App& app, const Invocation& invocation, Run& run);
void add_export(CLI::App& app, const Invocation& invocation, Run& run);
void add_report(CLI::App& app, const Invocation& invocation, Run& run);
void add_generate(CLI::App& app, const Invocation& invocation, Run& run);
void add_check(CLI::App& app, const Invocation& invocation, Run& run);
void add_models(CLI::App& app, const Invocation& invocation, Run& run);
void add_init(CLI::App& app, const Invocation& invocation, Run& run);
void add_datasets(CLI::App& app, const Invocation& invocation, Run& run);
void add_data(CLI::App& app, const Invocation& invocation, Run& run);  // pack, info, verify, get
void add_plan(CLI::App& app, const Invocation& invocation, Run& run);
void add_measure(CLI::App& app, const Invocation& invocation, Run& run);  // hidden: started by plan
void add_bench(CLI::App& app, const Invocation& invocation, Run& run);
void add_bench_exchange(CLI::App& bench, const Invocation& invocation, Run& run);
void add_bench_tables(CLI::App& bench, const Invocation& invocation, Run& run);
void add_control(CLI::App& app, const Invocation& invocation, Run& run);  // status, stop, pause, scale
void add_audit(CLI::App& app, const Invocation& invocation, Run& run);
void add_certs(CLI::App& app, const Invocation& invocation, Run& run);
void add_host(CLI::App& app, const Invocation& invocation, Run& run);  // hidden: a host's answer to a probe
// Hidden: started by launch on each worker's host; runs the user's program as a worker.
void add_run_as_worker(CLI::App& app, const Invocation& invocation, Run& run);
// Hidden: removes a run's snapshots from a host at its end.
void add_clear_host(CLI::App& app, const Invocation& invocation, Run& run);
// Hidden: restores a run's snapshots on a host.
void add_restore_snapshots(CLI::App& app, const Invocation& invocation, Run& run);

// The path of `distbelief`, also in distbelief-torch, for starting it elsewhere.
std::string own_path();
// The path of distbelief-torch, for `distbelief`.
std::string torch_path();

// Returns unused memory from the allocator to the system. Called once, after the model is built and its
// initial weights are in shared memory.
void release_unused_memory();

// Restarts this program with the pinned environment unless it has it already.
void pin_or_restart(const Invocation& invocation);

}  // namespace distbelief::cli
