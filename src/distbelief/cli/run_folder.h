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

// The folder that a run writes to. What it was started with is in its job.toml, or its launch.json when it is
// a program of the user's.
namespace distbelief::cli {

// Throws Error(kUnavailable) when there are not so many bytes where it is to be.
void require_run_room(const std::filesystem::path& wanted, std::size_t bytes);
// Makes one with what the run is started with: the job, what it knows of its data, and the network's file,
// which the job names from then on.
std::filesystem::path begin_run_dir(const std::string& wanted, Config& config, const data::KnownSet& data);
// Of a run that goes on: notes files that are others than they were, says so on stderr, and asks for no more.
// `known` is what it began with; null: a folder of an earlier version, which has no such notes.
void note_data(const std::filesystem::path& run_dir, const data::KnownSet* known, const data::KnownSet& now);
// What the run in that folder has come to.
FormerRun former_run(const std::filesystem::path& run_dir);
std::string run_name(const Config& config);  // MODEL-DATA
// Writes the resolved job.
void write_job(const std::filesystem::path& run_dir, const Config& config);

// What a run folder says of the run, as it is before it goes on with another job: settings that turn out to
// be impossible shall be no obstacle to the next attempt.
class FormerFiles {
 public:
  explicit FormerFiles(std::filesystem::path run_dir);
  void bring_back() const;  // says on standard error when it cannot

 private:
  std::filesystem::path run_dir_;
  std::vector<std::pair<std::string, std::optional<std::string>>> files_;  // nothing: it is not there
};
// Of a network that was exported elsewhere the run keeps its own copy, network.pt: it is the code of the run,
// and its origin may change. Names it where the run folder is now.
void use_network_file(const std::filesystem::path& run_dir, Config& config);
// Throws Error(kBadInput) when it is none.
void require_run_dir(const std::filesystem::path& run_dir);
// Whether it is the run of a program of the user's.
bool is_launched(const std::filesystem::path& run_dir);
inline constexpr const char* kLaunchFile = "launch.json";
inline constexpr const char* kServersFile = "servers.json";  // of servers that stand: their settings
// summary.json; null when there is none that can be read.
nlohmann::json read_summary(const std::filesystem::path& run_dir);
// Whether there is what a killed run has left in memory, or an interrupted one has put aside.
bool has_snapshots(const std::filesystem::path& run_dir);
// Whether the snapshots of that name, on this machine, have a whole one.
bool holds_snapshot(const std::string& name);
// Step of the newest checkpoint on the disk, by its name; -1: there is none.
std::int64_t newest_checkpoint(const std::filesystem::path& run_dir);
// What to say at the end of an interrupted run: how to go on, if anything is there to go on from.
std::string advice_after_interrupt(const std::filesystem::path& run_dir);
// The summary of a run that came to its end and was not trained on since; nothing of any other. As far as can
// be told from names and summary.json, without the job's data.
std::optional<nlohmann::json> summary_of_finished(const std::filesystem::path& run_dir);
// How the run ended, for people.
void show_end(const std::filesystem::path& run_dir);

}  // namespace distbelief::cli
