#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "distbelief/cli/commands.h"

namespace distbelief::cli {

// Adds --ca-file, with SSL_CERT_FILE as the default.
void add_ca_file(CLI::App& command, std::string& ca_file);

// `data get`: fetches a public data set.
void add_data_get(CLI::App& data, Run& run);

}  // namespace distbelief::cli
