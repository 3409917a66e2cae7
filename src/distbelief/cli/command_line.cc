#include "distbelief/cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>

#include "distbelief/base/error.h"
#include "distbelief/base/options.h"
#include "distbelief/cli/interruption.h"

namespace distbelief::cli {
namespace {

// Names similar commands; the parser would only say that a command is missing.
void refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == argv[1]) return;
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  const std::string near = nearest(argv[1], names);
  throw Error(ErrorCode::kBadInput,
              fmt::format("there is no command '{}'; {}", argv[1],
                          near.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                       : fmt::format("did you mean '{}'?", near)));
}

constexpr const char *kQuickProgram = "distbelief", *kTorchProgram = "distbelief-torch";

// These commands save before they end; the others end at once.
constexpr std::array<std::string_view, 9> kEndByThemselves{"train",   "resume", "launch",  "worker", "plan",
                                                           "measure", "bench",  "servers", "check"};

int run(int argc, char** argv, std::span<const AddCommand> commands) {
  CLI::App app{"Distributed deep learning on libtorch, MPI and shared memory.", "distbelief"};
  app.require_subcommand(1);
  app.set_version_flag("--version", DISTBELIEF_VERSION);
  app.failure_message([](const CLI::App* parsed, const CLI::Error& error) {
    return "distbelief: " + CLI::FailureMessage::simple(parsed, error);
  });
  app.footer(
      "Examples:\n"
      "  distbelief train                                a CNN on Fashion-MNIST, 2 workers\n"
      "  distbelief train job.toml --workers 4 --set train.lr=0.1\n"
      "  distbelief eval runs/my-run\n"
      "  distbelief predict runs/my-run photo.ppm\n"
      "  distbelief launch --workers 4 -- ./my_program   your own libtorch program\n"
      "  distbelief COMMAND --help                       all options of a command");
  const Invocation invocation{{argv, argv + argc}, argv};
  Run run;
  for (const AddCommand add : commands) add(app, invocation, run);
  try {
    refuse_unknown_command(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const CLI::App* chosen : app.get_subcommands())
    if (std::ranges::find(kEndByThemselves, chosen->get_name()) != kEndByThemselves.end()) catch_signals();
  return run();
}

}  // namespace

bool has_command(std::span<const AddCommand> commands, const std::string& name) {
  CLI::App app;
  const Invocation none;
  Run run;
  for (const AddCommand add : commands) add(app, none, run);
  return std::ranges::any_of(app.get_subcommands({}),
                             [&](const CLI::App* command) { return command->get_name() == name; });
}

int run_command_line(int argc, char** argv, std::span<const AddCommand> commands) {
  try {
    return run(argc, argv, commands);
  } catch (const Interrupted&) {
    return 130;
  } catch (const Error& error) {
    fmt::print(stderr, "distbelief: {}\n", error.what());
    return exit_code(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "distbelief: {}\n", error.what());
    return 1;
  }
}

// A program with a user's own models has another name and only one binary.
std::string own_path() {
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe");
  if (path.filename() == kTorchProgram) path.replace_filename(kQuickProgram);
  return path.string();
}

std::string torch_path() {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename(kTorchProgram).string();
}

}  // namespace distbelief::cli
