#include "distbelief/cli/new_run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/cli/run_folder.h"
#include "distbelief/cluster/run_place.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

// The folders that were made here.
class MadeFolders {
 public:
  // Returns whether the folder is new; makes its parents too.
  bool make(const fs::path& folder) {
    if (folder.has_parent_path() && !fs::exists(folder.parent_path())) make(folder.parent_path());
    std::error_code error;
    const bool made = fs::create_directory(folder, error);
    if (error && !fs::is_directory(folder))
      throw Error(ErrorCode::kUnavailable,
                  fmt::format("cannot make the run folder {}: {}; name another with --run-dir",
                              folder.string(), error.message()));
    if (made) made_.insert(made_.begin(), folder);
    return made;
  }

  // Removes `own` with its contents, and the others only if they are empty, because other runs may use a
  // parent by now.
  void remove(const fs::path& own) const {
    std::error_code ignored;
    for (const fs::path& folder : made_)
      folder == own ? void(fs::remove_all(folder, ignored)) : void(fs::remove(folder, ignored));
  }

 private:
  std::vector<fs::path> made_;  // newest first
};

// The files that a run writes, besides its logs.
constexpr const char* kWritten[] = {"job.toml",
                                    kLaunchFile,
                                    kServersFile,
                                    "data.json",
                                    "network.pt",
                                    "blocks.json",
                                    "events.jsonl",
                                    "metrics.jsonl",
                                    "summary.json",
                                    "report.html",
                                    "model.safetensors",
                                    "predictions.json",
                                    "samples.json",
                                    "samples.png",
                                    "masks.png",
                                    "clusters.json",
                                    "reconstructions.png",
                                    "found.toml",
                                    "fence",
                                    "checkpoints",
                                    "servers",
                                    "replicas",
                                    "tables",
                                    "audit",
                                    "tensorboard",
                                    cluster::kKeptSnapshots};
constexpr const char* kLogs = "logs";

bool is_run(const fs::path& folder) {
  const auto has = [&](const char* name) { return fs::exists(folder / name); };
  return (has("job.toml") || has(kLaunchFile)) && (has(kLogs) || has("events.jsonl") || has("checkpoints"));
}

// Removes only a run's files, because the folder may hold the user's too. Files that cannot be removed are
// overwritten.
void remove_run(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder / kLogs, ignored);
  for (const char* name : kWritten) fs::remove_all(folder / name, ignored);
}

void refuse_others_files(const fs::path& folder) {
  for (const char* name : kWritten)
    if (fs::exists(folder / name))
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("{} is no run and has a {}, which a run would write over; name a new folder with "
                      "--run-dir",
                      folder.string(), name));
}

void refuse_used(const fs::path& folder, const RunDirMaker& maker) {
  if (!is_run(folder)) return refuse_others_files(folder);
  switch (maker.judge(folder)) {
    case FormerRun::kNothing: return remove_run(folder);
    case FormerRun::kNoSave:
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{} holds a run already, which saved nothing to go on from; name another "
                              "--run-dir, or remove that run",
                              folder.string()));
    case FormerRun::kGoesOn:
      throw Error(
          ErrorCode::kBadInput,
          fmt::format(
              "{0} holds a run already; name another --run-dir, or go on with it: distbelief resume {0}",
              folder.string()));
  }
}

// Runs that start in the same second get different names.
fs::path make_default(MadeFolders& made, const std::string& name) {
  const fs::path folder =
      fs::path("runs") / fmt::format("{}-{:%Y%m%d-%H%M%S}", name, fmt::localtime(std::time(nullptr)));
  fs::path free = folder;
  for (int i = 2; !made.make(free); ++i) free = fmt::format("{}-{}", folder.string(), i);
  return free;
}

fs::path make_wanted(MadeFolders& made, const fs::path& folder, const RunDirMaker& maker) {
  refuse_used(folder, maker);
  made.make(folder);
  return folder;
}

}  // namespace

fs::path make_run_dir(const std::string& wanted, const std::string& name, const RunDirMaker& maker) {
  MadeFolders made;
  fs::path folder;
  try {
    folder = wanted.empty() ? make_default(made, name)
                            : make_wanted(made, fs::path(wanted + "/").parent_path(), maker);
    made.make(folder / "logs");
    maker.fill(folder);
  } catch (...) {
    made.remove(folder);
    throw;
  }
  return folder;
}

}  // namespace distbelief::cli
