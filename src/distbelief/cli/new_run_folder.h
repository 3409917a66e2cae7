#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace distbelief::cli {

// The state of the run that a folder holds. kNothing: it ended before it measured or saved anything. kNoSave:
// it has no state to continue from. kGoesOn: it can continue.
enum class FormerRun { kGoesOn, kNoSave, kNothing };

struct RunDirMaker {
  // Writes the inputs of the run into the folder.
  std::function<void(const std::filesystem::path&)> fill;
  // Judges a folder that holds a run.
  std::function<FormerRun(const std::filesystem::path&)> judge;
};

// Makes a run's folder: the wanted one, or by default a new runs/NAME-TIME. Reuses the folder of a run that
// is kNothing, without that run's files. When `fill` fails, removes everything made here, so that the same
// command can be given again. Throws Error when the folder already holds a run or foreign files that a run
// would overwrite, or cannot be made; also throws what `fill` throws.
std::filesystem::path make_run_dir(const std::string& wanted, const std::string& name,
                                   const RunDirMaker& maker);

}  // namespace distbelief::cli
