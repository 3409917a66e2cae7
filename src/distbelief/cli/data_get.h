#pragma once

#include <CLI/CLI.hpp>

#include "distbelief/cli/commands.h"

namespace distbelief::cli {

// `data get`: fetches a public data set.
void add_data_get(CLI::App& data, Run& run);

}  // namespace distbelief::cli
