#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace distbelief::cli {

// What main() hands to every command.
struct Invocation {
  std::vector<std::string> arguments;  // the whole command line
  char** argv = nullptr;
};

// A command adds itself to the program and, when chosen, leaves in `run` what gives the exit code.
using Run = std::function<int()>;
void add_train(CLI::App& app, const Invocation& invocation, Run& run);
void add_resume(CLI::App& app, const Invocation& invocation, Run& run);
void add_launch(CLI::App& app, const Invocation& invocation, Run& run);
void add_worker(CLI::App& app, const Invocation& invocation, Run& run);  // hidden: what train starts
void add_server(CLI::App& app, const Invocation& invocation, Run& run);  // hidden: what train starts
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
void add_measure(CLI::App& app, const Invocation& invocation, Run& run);  // hidden: what plan starts
void add_bench(CLI::App& app, const Invocation& invocation, Run& run);
void add_bench_exchange(CLI::App& bench, const Invocation& invocation, Run& run);
void add_bench_tables(CLI::App& bench, const Invocation& invocation, Run& run);
void add_control(CLI::App& app, const Invocation& invocation, Run& run);  // status, stop, pause, scale
void add_audit(CLI::App& app, const Invocation& invocation, Run& run);
void add_certs(CLI::App& app, const Invocation& invocation, Run& run);
void add_host(CLI::App& app, const Invocation& invocation, Run& run);   // hidden: what a host answers
void add_begin(CLI::App& app, const Invocation& invocation, Run& run);  // hidden: what launch starts
void add_forget(CLI::App& app, const Invocation& invocation,
                Run& run);  // hidden: what a host is told at the end
void add_remember(CLI::App& app, const Invocation& invocation, Run& run);  // hidden: the other way round

// The path of this program, for starting it elsewhere: that of `distbelief` also in distbelief-torch.
std::string own_path();
// Of distbelief-torch, from distbelief.
std::string torch_path();

// Gives memory that the allocator keeps, but nobody uses, back to the system: once, after a model has been
// built and its first weights moved to shared memory.
void release_unused_memory();

// Starts this program anew with the environment pinned unless that is done already.
void pin_or_restart(const Invocation& invocation);

}  // namespace distbelief::cli
