#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/checkpoint/loaded.h"
#include "distbelief/checkpoint/safetensors.h"

namespace distbelief::checkpoint {

class Gathering;
class TemporaryFolder;

// Input of a save. Name prefixes, chosen by the caller, tell parameters, buffers and optimizer state apart.
// The tensors are borrowed and must not change during save().
struct Snapshot {
  std::int64_t step = 0;
  nlohmann::json progress = nlohmann::json::object();  // counters for resuming; opaque to the store
  std::span<const TensorView> tensors;
  Metadata metadata;
  std::size_t weights = 0;  // weights_sha256 covers this many tensors from the front, over all parts

  // When several processes hold the tensors, each saves its own part. Progress is taken from part 0.
  int part = 0;
  int parts = 1;
  // Letters, digits, '-', '_' and '.': the same in all parts of a save, different for each save. A single
  // part needs none.
  std::string attempt = {};
};

// The checkpoints of a run: folders step-00000123 with state.safetensors (or a file for each part) and
// manifest.json, and best.json beside them. A checkpoint appears whole or not at all; a process may be killed
// at any moment of a save. One process writes, or one per part; then only part 0 marks and prunes. Any number
// may read, and a reader keeps a loaded checkpoint even after it is pruned. Not thread-safe; blocks on the
// disk, and save() of a part blocks on the other parts.
class Store {
 public:
  struct Options {
    // Called before the first change of the folder and again right before a new checkpoint gets its name. It
    // returns false when other workers have taken over the folder; the save then ends with Error(kAborted).
    // May be empty.
    std::function<bool()> may_commit;
    AtPoint at;  // for tests
    // For each wait of a part for the others. Must cover the time in which the slowest part writes its file.
    std::chrono::milliseconds deadline{120'000};
  };
  explicit Store(std::filesystem::path folder);  // created by the first save
  Store(std::filesystem::path folder, Options options);

  // The checkpoint is durable when save() returns; it replaces one of the same step. Starts by removing
  // leftovers of interrupted saves, which may free the space it needs. Throws Error(kUnavailable) when the
  // disk refuses it, Error(kAborted) when `may_commit` forbids it; then nothing is left behind and earlier
  // checkpoints remain.
  //
  // With several parts, each part is saved by its own Store, on a file system that all of them see. All
  // return when the checkpoint has its name, or all throw: Error(kAborted) with the reason when another part
  // failed, Error(kTimeout) when one misses the deadline. Exceptions: an error of part 0 after the checkpoint
  // has its name, and a deadline that passes at that very moment, affect one part only.
  void save(const Snapshot& snapshot);

  std::vector<Entry> list() const;  // complete ones, ascending by step

  // Verifies sizes and checksums. Throws Error(kBadInput) with the damaged file and its damaged tensors.
  Loaded load(const Entry& entry) const;

  // Called for each damaged checkpoint that is skipped.
  using DamageReport = std::function<void(const Entry&, const Error&)>;
  // The newest undamaged checkpoint; nothing when there is none.
  std::optional<Loaded> load_latest(const DamageReport& report) const;

  // Records the best checkpoint; replaces the previous record.
  void mark_best(const Entry& entry);
  std::optional<Entry> best() const;  // nothing when none was marked, or it is gone

  // Keeps the last `keep` and the best; removes all others and leftovers of interrupted saves.
  void prune(std::size_t keep);

 private:
  void at(std::string_view action, const std::filesystem::path& path) const;
  void check_turn() const;
  std::filesystem::path temporary_path(const Snapshot& snapshot) const;
  Gathering gathering(const Snapshot& snapshot) const;
  void write(const Snapshot& snapshot);
  void write_alone(const Snapshot& snapshot, TemporaryFolder& temporary);
  void write_with_others(const Snapshot& snapshot, TemporaryFolder& temporary);
  void write_for_part_0(const Snapshot& snapshot);
  void commit(const Snapshot& snapshot, TemporaryFolder& temporary);
  std::optional<Error> remove_unfinished();  // returns the first failure but tries all folders

  std::filesystem::path folder_;
  Options options_;
};

}  // namespace distbelief::checkpoint
