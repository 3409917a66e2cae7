#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/cli/new_run_folder.h"
#include "distbelief/data/known_set.h"

// The folder that a run writes to. Its job.toml holds the inputs of the run; for a user's own program,
// launch.json does.
namespace distbelief::cli {

// Throws Error(kUnavailable) when there are fewer free bytes at the folder's place.
void require_run_room(const std::filesystem::path& wanted, std::size_t bytes);
// Makes a run folder with the inputs of the run: the job, its data manifest, and the network's file, which
// `config` names from then on.
std::filesystem::path begin_run_dir(const std::string& wanted, Config& config, const data::KnownSet& data);
// For a resumed run: records files that have changed and prints that on stderr; does no more. `known` is the
// manifest of the start; null: a folder of an earlier version without one.
void note_data(const std::filesystem::path& run_dir, const data::KnownSet* known, const data::KnownSet& now);
// The state of the run in that folder.
FormerRun former_run(const std::filesystem::path& run_dir);
std::string run_name(const Config& config);  // MODEL-DATA
// Writes the resolved job.
void write_job(const std::filesystem::path& run_dir, const Config& config);

// Keeps a copy of the files that describe the run before it continues with another job, so that invalid
// settings do not block the next attempt.
class FormerFiles {
 public:
  explicit FormerFiles(std::filesystem::path run_dir);
  void bring_back() const;  // prints on standard error if it fails

 private:
  std::filesystem::path run_dir_;
  // Null contents: the file does not exist.
  std::vector<std::pair<std::string, std::optional<std::string>>> files_;
};
// Makes the config name network.pt, the run's own copy of an exported network, in the current run folder. The
// run needs its own copy, because the original may change.
void use_network_file(const std::filesystem::path& run_dir, Config& config);
// Throws Error(kBadInput) when it is no run folder.
void require_run_dir(const std::filesystem::path& run_dir);
// Whether the folder belongs to a run of a user's own program.
bool is_launched(const std::filesystem::path& run_dir);
inline constexpr const char* kLaunchFile = "launch.json";
inline constexpr const char* kServersFile = "servers.json";  // settings of standing servers
// summary.json; null if it is missing or unreadable.
nlohmann::json read_summary(const std::filesystem::path& run_dir);
// Whether there are snapshots that a killed run left in memory, or an interrupted one put aside.
bool has_snapshots(const std::filesystem::path& run_dir);
// Whether the snapshots of that name on this machine include a whole one.
bool holds_snapshot(const std::string& name);
// Step of the newest checkpoint on the disk, by its name; -1: there is none.
std::int64_t newest_checkpoint(const std::filesystem::path& run_dir);
// Advice at the end of an interrupted run: how to continue, if there is saved state.
std::string advice_after_interrupt(const std::filesystem::path& run_dir);
// The summary of a run that has finished and was not continued since; empty otherwise. Judged by file names
// and summary.json, without the job's data.
std::optional<nlohmann::json> summary_of_finished(const std::filesystem::path& run_dir);
// Prints how the run ended.
void show_end(const std::filesystem::path& run_dir);

}  // namespace distbelief::cli
