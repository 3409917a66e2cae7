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

// What to save. Names carry prefixes of the caller's choice that tell parameters, buffers and optimizer
// state apart. The tensors are borrowed and must keep still during save().
struct Snapshot {
  std::int64_t step = 0;
  nlohmann::json progress = nlohmann::json::object();  // counters to resume from; ours to keep, not to read
  std::span<const TensorView> tensors;
  Metadata metadata;
  std::size_t weights = 0;  // weights_sha256 is over the first so many tensors, of all parts together

  // When several processes hold the tensors each saves its part of them. Progress is part 0's.
  int part = 0;
  int parts = 1;
  // Letters, digits, '-', '_' and '.': the same in all parts of a save, another in each save. One part alone
  // needs none.
  std::string attempt = {};
};

// The checkpoints of a run: folders step-00000123 with state.safetensors (or a file for each part) and
// manifest.json, and best.json beside them. A checkpoint appears whole or not at all, and a process may be
// killed at any moment of a save. One process writes, or one for each part, of which that of part 0 alone
// marks and prunes; any number may read, and a reader keeps what it loaded even when it is pruned. Not
// thread-safe; blocks on the disk, and save() of a part on the other parts.
class Store {
 public:
  struct Options {
    // Asked before anything of the folder is changed, and once more right before a new checkpoint gets its
    // name: false when others write this folder now. Then the save ends with Error(kAborted). May be empty.
    std::function<bool()> may_commit;
    AtPoint at;  // for tests
    // Of each wait of a part for the others. It has to cover the time in which the slowest writes its file.
    std::chrono::milliseconds deadline{120'000};
  };
  explicit Store(std::filesystem::path folder);  // created by the first save
  Store(std::filesystem::path folder, Options options);

  // Durable when it returns; replaces a checkpoint of the same step. Begins by removing what interrupted
  // saves left, which may be the room it needs. Throws Error(kUnavailable) when the disk will not take it,
  // Error(kAborted) when it may not be committed; then nothing is left behind and what was there before
  // still is.
  //
  // Of several parts each is saved by a Store of its own, on a file system that all of them see; all return
  // when the checkpoint has its name, or all throw: Error(kAborted) with the reason when another part failed,
  // Error(kTimeout) when one did not come before the deadline. What part 0 throws after the checkpoint has
  // its name, and a deadline that passes in that very moment, concern one part alone.
  void save(const Snapshot& snapshot);

  std::vector<Entry> list() const;  // whole ones, ascending by step

  // Verifies sizes and checksums. Throws Error(kBadInput) with the file that is damaged, and which of its
  // tensors.
  Loaded load(const Entry& entry) const;

  // Called for each checkpoint that had to be passed over.
  using DamageReport = std::function<void(const Entry&, const Error&)>;
  // The newest one that is whole; nothing when there is none.
  std::optional<Loaded> load_latest(const DamageReport& report) const;

  // Records the best one; replaces the one before it.
  void mark_best(const Entry& entry);
  std::optional<Entry> best() const;  // nothing when none was marked, or it is gone

  // Keeps the last `keep` and the best; removes the others and what interrupted saves left.
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
  std::optional<Error> remove_unfinished();  // the first failure; goes on after it

  std::filesystem::path folder_;
  Options options_;
};

}  // namespace distbelief::checkpoint
