#pragma once

#include <span>
#include <string>

#include "distbelief/cli/commands.h"

namespace distbelief::cli {

using AddCommand = void (*)(CLI::App& app, const Invocation& invocation, Run& run);

// Whether one of `commands` adds a command of that name.
bool has_command(std::span<const AddCommand> commands, const std::string& name);

// Runs the command that the arguments name and returns its exit code; prints errors. Call once per process,
// from main().
int run_command_line(int argc, char** argv, std::span<const AddCommand> commands);

}  // namespace distbelief::cli
