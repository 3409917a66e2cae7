#include "distbelief/cli/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <cstdio>
#include <exception>

#include "distbelief/base/error.h"
#include "distbelief/base/options.h"
#include "distbelief/cli/commands.h"

// There only in a program that has jemalloc for its allocator, as ours does.
extern "C" int mallctl(const char* name, void* old, std::size_t* old_size, void* value,
                       std::size_t value_size) __attribute__((weak));

namespace distbelief::cli {

void release_unused_memory() {
  constexpr const char* kPurgeAllArenas = "arena.4096.purge";  // MALLCTL_ARENAS_ALL
  if (mallctl != nullptr) mallctl(kPurgeAllArenas, nullptr, nullptr, nullptr, 0);
}

}  // namespace distbelief::cli

namespace {

std::atomic<bool> interrupted{false};  // a signal handler can reach nothing else

void note_signal(int) { interrupted.store(true); }

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) sigaction(number, &action, nullptr);
}

// The parser would only say that a command is wanted.
void refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == argv[1]) return;
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  const std::string near = distbelief::nearest(argv[1], names);
  throw distbelief::Error(distbelief::ErrorCode::kBadInput,
                          fmt::format("there is no command '{}'; {}", argv[1],
                                      near.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                                   : fmt::format("did you mean '{}'?", near)));
}

int run_program(int argc, char** argv) {
  using namespace distbelief::cli;
  CLI::App app{"Distributed deep learning on libtorch, MPI and shared memory.", "distbelief"};
  app.require_subcommand(1);
  app.set_version_flag("--version", DISTBELIEF_VERSION);
  app.failure_message([](const CLI::App* parsed, const CLI::Error& error) {
    return "distbelief: " + CLI::FailureMessage::simple(parsed, error);
  });
  app.footer(
      "Examples:\n"
      "  distbelief train                              a CNN on Fashion-MNIST, 2 workers\n"
      "  distbelief train job.toml --workers 4 --set train.lr=0.1\n"
      "  distbelief eval runs/my-run\n"
      "  distbelief predict runs/my-run photo.ppm\n"
      "  distbelief launch --workers 4 -- ./my_program   a libtorch program of yours\n"
      "  distbelief COMMAND --help                     everything about a command");
  const Invocation invocation{{argv, argv + argc}, argv, &interrupted};
  Run run;
  for (const auto add :
       {add_train,   add_resume, add_launch,  add_eval,    add_generate, add_predict,  add_nearest,
        add_export,  add_report, add_check,   add_init,    add_models,   add_datasets, add_data,
        add_plan,    add_bench,  add_measure, add_control, add_certs,    add_worker,   add_server,
        add_servers, add_host,   add_begin,   add_forget,  add_remember})
    add(app, invocation, run);
  try {
    refuse_unknown_command(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const char* name : {"train", "resume", "launch", "worker", "plan", "measure",
                           "bench"})  // the others end at once, as usual
    if (app.got_subcommand(name)) catch_signals();
  return run();
}

}  // namespace

int distbelief::cli_main(int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const distbelief::Error& error) {
    fmt::print(stderr, "distbelief: {}\n", error.what());
    return distbelief::exit_code(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "distbelief: {}\n", error.what());
    return 1;
  }
}
