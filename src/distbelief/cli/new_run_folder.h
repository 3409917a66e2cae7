#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace distbelief::cli {

// Makes a run's folder: the wanted one, or when none is wanted runs/NAME-TIME, which nobody else has made.
// `fill` writes into it what the run was started with. When that fails nothing is left of what was made here,
// so that the same command can be given again. Throws Error when the folder holds a run already or cannot be
// made, and what `fill` throws.
std::filesystem::path make_run_dir(const std::string& wanted, const std::string& name,
                                   const std::function<void(const std::filesystem::path&)>& fill);

}  // namespace distbelief::cli
