#include <fmt/format.h>

#include <filesystem>

#include "distbelief/base/error.h"
#include "distbelief/cluster/supervision.h"

// Handles snapshots when a run ends and when it is resumed.
namespace distbelief::cluster {
namespace {

constexpr std::chrono::minutes kRestoreDeadline{2};

}  // namespace

void Supervisor::settle_snapshots(int code) {
  const std::filesystem::path file = options_.run_dir / kKeptSnapshots;
  const bool has_saved = saved_ || newest_checkpoint() > saved_before_;
  // A failed resume keeps the state that it was to continue from.
  const bool came_to_nothing = options_.resume && code != 0 && !has_saved && !has_snapshots_;
  // Workers that only allocated their memory have left no snapshot in it.
  if (came_to_nothing) keeps_snapshots_ = !is_brought_back_ && (!options_.hosts.empty() || holds_snapshot());
  const bool is_put_aside = keeps_snapshots_ && put_snapshots_aside(file);
  if (is_put_aside) keeps_snapshots_ = false;
  if (keeps_snapshots_ && !came_to_nothing)
    say("the newest state is in memory only; resume on these machines goes on from it");
  if (!keeps_snapshots_) clear_hosts();
  if (is_put_aside || (code != 0 && !has_saved)) return;
  std::error_code error;
  std::filesystem::remove(file, error);
  if (error)
    say(fmt::format("cannot remove {}, which is of no use any more: {}", file.string(), error.message()));
}

// Returns true when it cannot tell, so that snapshots are kept.
bool Supervisor::holds_snapshot() const {
  try {
    return options_.holds_snapshot();
  } catch (const Error& error) {
    say(error.message());
    return true;
  }
}

// Each host has a copy, so one host writes the file. Returns false if the snapshots stay in memory.
bool Supervisor::put_snapshots_aside(const std::filesystem::path& file) {
  try {
    bool is_done = options_.hosts.empty() ? put_aside(options_.place.snapshots, file)
                                          : !keeper_.empty() && clear_host(keeper_, file);
    if (is_done && !std::filesystem::exists(file)) {
      say(fmt::format("{} is on {} only: hosts do not share the folder", file.string(), keeper_));
      is_done = false;
    }
    if (is_done) say(fmt::format("the newest state is in {}; resume goes on from it", file.string()));
    return is_done;
  } catch (const Error& error) {
    say(error.message());
    return false;
  }
}

// Restores the snapshots on one host that will have workers; these send them to the others.
void Supervisor::bring_snapshots_back() {
  const std::filesystem::path file = std::filesystem::absolute(options_.run_dir / kKeptSnapshots);
  if (!std::filesystem::exists(file)) return;
  if (!options_.snapshots)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} has the run's newest state, which is not read with checkpoint.snapshots = false; "
                    "leave that out, or remove the file to go on from the last checkpoint",
                    file.string()));
  if (options_.hosts.empty()) {
    is_brought_back_ = bring_back(options_.place.snapshots, file);
    return;
  }
  const std::string& host = options_.hosts[0].host;
  LaunchOptions launch;
  launch.session_folder = options_.place.launcher;
  launch.isa = options_.launch.isa;
  launch.hosts = {{host, 1}};
  launch.command = {options_.watch.program.string(), "restore-snapshots", options_.place.snapshots,
                    file.string()};
  const std::optional<std::string> answer = output_of(launch_command(launch), kRestoreDeadline, interrupted_);
  if (!answer && !interrupted_.load())
    throw Error(
        ErrorCode::kUnavailable,
        fmt::format("{} could not be brought back into memory on {}; is the run folder there too, and "
                    "/dev/shm large enough?",
                    file.string(), host));
  is_brought_back_ = answer && answer->starts_with(kBroughtBack);
}

}  // namespace distbelief::cluster
