#include "distbelief/cli/run_folder.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/checkpoint/snapshot_memory.h"
#include "distbelief/checkpoint/store.h"
#include "distbelief/cluster/run_place.h"
#include "distbelief/job/job_file.h"
#include "distbelief/report/json_lines.h"

namespace distbelief::cli {

namespace fs = std::filesystem;

nlohmann::json read_summary(const fs::path& run_dir) { return read_json(run_dir / "summary.json"); }

std::string run_name(const Config& config) { return config.model.name + "-" + config.data.name; }

bool is_launched(const fs::path& run_dir) { return fs::exists(run_dir / kLaunchFile); }

void write_job(const fs::path& run_dir, const Config& config) {
  write_durably(run_dir / "job.toml", job::to_toml(config));
}

FormerFiles::FormerFiles(fs::path run_dir) : run_dir_(std::move(run_dir)) {
  for (const char* name : {"job.toml", "data.json", "blocks.json"}) {
    std::ifstream file(run_dir_ / name, std::ios::binary);
    files_.emplace_back(name, std::nullopt);
    if (file)
      files_.back().second.emplace(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
}

void FormerFiles::bring_back() const {
  try {
    for (const auto& [name, text] : files_)
      if (text)
        write_durably(run_dir_ / name, *text);
      else
        fs::remove(run_dir_ / name);
  } catch (const std::exception& error) {
    fmt::print(stderr, "distbelief: {} keeps settings that it cannot go on with: {}\n", run_dir_.string(),
               error.what());
  }
}

namespace {

constexpr const char* kNetworkFile = "network.pt";

}  // namespace

void use_network_file(const fs::path& run_dir, Config& config) {
  if (fs::exists(run_dir / kNetworkFile))
    config.model.options["file"] = fs::absolute(run_dir / kNetworkFile).lexically_normal().string();
}

namespace {

void keep_network_file(const fs::path& run_dir, Config& config) {
  if (config.model.name != "torchscript") return;
  const std::string file = option<std::string>(config.model.options, "file");
  std::error_code error;
  fs::copy_file(file, run_dir / kNetworkFile, fs::copy_options::overwrite_existing, error);
  if (error)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot copy {} to {}: {}", file, run_dir.string(), error.message()));
  use_network_file(run_dir, config);
}

}  // namespace

void require_run_room(const fs::path& wanted, std::size_t bytes) {
  std::error_code failure;
  fs::path there = fs::absolute(wanted);
  while (!fs::exists(there, failure) && there.has_relative_path()) there = there.parent_path();
  const fs::space_info room = fs::space(there, failure);
  // A file system without a size (/proc), or whose size is unknown, is tested only by writing.
  if (failure || room.capacity == 0 || room.available >= bytes) return;
  throw Error(
      ErrorCode::kUnavailable,
      fmt::format("no room for the run folder: a checkpoint and the model take {:.1f} MB, but {:.1f} MB are "
                  "free at {}; make room there, or choose another --run-dir",
                  double(bytes) / 1e6, double(room.available) / 1e6, there.string()));
}

fs::path begin_run_dir(const std::string& wanted, Config& config, const data::KnownSet& data) {
  const auto fill = [&](const fs::path& folder) {
    keep_network_file(folder, config);
    if (!data::write_known_set(folder, data))
      fmt::print(
          stderr,
          "distbelief: the categories or words of the data are too many to be kept with the run: whoever "
          "uses it needs the data as it is now\n");
    write_job(folder, config);
  };
  return make_run_dir(wanted, run_name(config), {.fill = fill, .judge = former_run});
}

// A run that has just started has measured nothing either, so only a recorded end counts.
FormerRun former_run(const fs::path& run_dir) {
  if (is_launched(run_dir) || newest_checkpoint(run_dir) >= 0 || has_snapshots(run_dir) ||
      cluster::has_supervisor(cluster::place_of(run_dir)))
    return FormerRun::kGoesOn;
  bool has_ended = false, has_steps = false;
  report::JsonLines(run_dir / "events.jsonl").read_new([&](const nlohmann::json& event) {
    has_ended = event.value("event", "") == "ended";
  });
  report::JsonLines(run_dir / "metrics.jsonl").read_new([&](const nlohmann::json&) { has_steps = true; });
  return has_ended && !has_steps ? FormerRun::kNothing : FormerRun::kNoSave;
}

void note_data(const fs::path& run_dir, const data::KnownSet* known, const data::KnownSet& now) {
  if (known == nullptr || known->fingerprints.back() == now.fingerprints.front()) return;
  fmt::print(
      stderr,
      "distbelief: the data of {} has changed since it was last trained; columns, tokens and classes mean "
      "what they meant, but the result is not that of a run on either data alone (reproducible: false)\n",
      run_dir.string());
  data::KnownSet noted = *known;
  noted.fingerprints.push_back(now.fingerprints.front());
  data::write_known_set(run_dir, noted);
}

void require_run_dir(const fs::path& run_dir) {
  if (!fs::exists(run_dir))
    throw Error(ErrorCode::kBadInput,
                fmt::format("there is no run folder {}; runs are in runs/ unless --run-dir "
                            "named another place",
                            run_dir.string()));
  if (!fs::exists(run_dir / "job.toml") && !is_launched(run_dir) && !fs::exists(run_dir / kServersFile))
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is not a run folder: it has no job.toml", run_dir.string()));
}

bool has_snapshots(const fs::path& run_dir) {
  return fs::exists(fs::path("/dev/shm") / cluster::place_of(run_dir).snapshots) ||
         fs::exists(run_dir / cluster::kKeptSnapshots);
}

bool holds_snapshot(const std::string& name) {
  const std::optional<checkpoint::SnapshotMemory> memory = checkpoint::SnapshotMemory::find(name);
  return memory && memory->newest();
}

std::int64_t newest_checkpoint(const fs::path& run_dir) {
  const std::vector<checkpoint::Entry> all = checkpoint::Store(run_dir / "checkpoints").list();
  return all.empty() ? -1 : all.back().step;
}

std::string advice_after_interrupt(const fs::path& run_dir) {
  if (newest_checkpoint(run_dir) < 0 && !has_snapshots(run_dir)) return "nothing was saved yet to go on from";
  return fmt::format("go on with: distbelief resume {}", run_dir.string());
}

namespace {

// A user's own program writes no summary; its supervisor records how it ended.
std::optional<nlohmann::json> summary_of_launched(const fs::path& run_dir) {
  bool is_done = false;
  report::JsonLines(run_dir / "events.jsonl").read_new([&](const nlohmann::json& event) {
    is_done = event.value("event", "") == "ended" && event.value("exit_code", -1) == 0;
  });
  if (!is_done) return std::nullopt;
  return nlohmann::json{{"status", "done"}, {"steps", std::max<std::int64_t>(0, newest_checkpoint(run_dir))}};
}

}  // namespace

std::optional<nlohmann::json> summary_of_finished(const fs::path& run_dir) {
  if (is_launched(run_dir)) return summary_of_launched(run_dir);
  const nlohmann::json summary = read_summary(run_dir);
  if (!summary.is_object() || has_snapshots(run_dir)) return std::nullopt;
  const std::string status = summary.value("status", "");
  const bool ended = status == "done" || status == "stopped early";
  if (!ended || summary.value("steps", std::int64_t{-1}) < newest_checkpoint(run_dir)) return std::nullopt;
  return summary;
}

void show_end(const fs::path& run_dir) {
  const nlohmann::json summary = read_summary(run_dir);
  if (!summary.is_object()) return;
  const double seconds = summary.value("wall_seconds", 0.0);
  const double speed = summary.value("samples_per_second", 0.0);
  const auto samples = summary.value("samples", std::int64_t{0});
  // The samples of the last generation, which the time belongs to.
  const auto last = std::llround(seconds * speed);
  fmt::print("{}: {} steps, {} samples{} in {:.1f} s ({:.0f} samples/s)", summary.value("status", ""),
             summary.value("steps", std::int64_t{0}), samples,
             last < samples ? fmt::format(", the last {}", last) : "", seconds, speed);
  if (summary.contains("test_accuracy") && summary["test_accuracy"].is_number())
    fmt::print(", test accuracy {:.2f} %", 100 * summary["test_accuracy"].get<double>());
  else if (summary.contains("test_metrics") && summary["test_metrics"].is_object())
    for (const auto& [name, value] : summary["test_metrics"].items())
      if (value.is_number()) fmt::print(", test {} {:.4g}", name, value.get<double>());
  fmt::print("\nrun folder: {}\n", run_dir.string());
}

}  // namespace distbelief::cli
