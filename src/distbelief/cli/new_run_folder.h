#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace distbelief::cli {

// What the run that a folder holds has come to. kNothing: it has ended before it measured or saved anything.
// kNoSave: there is nothing that it could go on from.
enum class FormerRun { kGoesOn, kNoSave, kNothing };

struct RunDirMaker {
  // Writes into it what the run was started with.
  std::function<void(const std::filesystem::path&)> fill;
  // Of a folder that holds a run.
  std::function<FormerRun(const std::filesystem::path&)> judge;
};

// Makes a run's folder: the wanted one, or when none is wanted runs/NAME-TIME, which nobody else has made.
// One whose run has come to nothing is used again, without that run's files. When `fill` fails nothing is
// left of what was made here, so that the same command can be given again. Throws Error when the folder holds
// a run already, or files of somebody's that a run would write over, or cannot be made, and what `fill`
// throws.
std::filesystem::path make_run_dir(const std::string& wanted, const std::string& name,
                                   const RunDirMaker& maker);

}  // namespace distbelief::cli
