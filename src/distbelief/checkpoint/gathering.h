#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"

namespace distbelief::checkpoint {

// What a part tells of its file once that is on the disk.
struct SealedPart {
  nlohmann::json file;               // as in the manifest
  std::vector<std::string> weights;  // names of the tensors, whole or not, that weights_sha256 is over
};

// SHA-256 over the weights of all parts in name order. Reads them through mappings: the memory is the page
// cache's. Throws Error(kBadInput) when two parts have a tensor of the same name.
std::string weights_sha256(const std::filesystem::path& folder, const std::vector<SealedPart>& parts);

// One part's place among those of a save that several processes write into one temporary folder, on a file
// system that all of them see. Part 0 makes the folder, waits for the others and gives the checkpoint its
// name. They tell each other through small files in it: sealed-* when a part's file is on the disk, failed-*
// with the reason when a part fails, left-* when one stops because another has failed.
//
// Waits look every few milliseconds and end at the deadline with Error(kTimeout), or with Error(kAborted) as
// soon as another part has failed. Not thread-safe.
class Gathering {
 public:
  struct Options {
    std::filesystem::path folder;  // the temporary one
    int part = 0;
    int parts = 1;
    std::string attempt;
    std::chrono::milliseconds deadline{};  // of each wait
    AtPoint at;
  };
  explicit Gathering(Options options) : options_(std::move(options)) {}

  // Throws Error(kAborted), with the reason if it is known, when another part has failed or the folder is
  // gone.
  void check() const;
  // The options' `at`, then check(): so a part stops between two tensors.
  AtPoint watched() const;
  // Tells the others why this part ends, if they can still be told. Never throws.
  void leave(const std::string& reason) const noexcept;
  bool is_gone() const;
  Error gone() const;

  // Part 0's.
  std::vector<SealedPart> wait_for_others() const;  // part 1, 2, ...; the error names those that are missing
  void remove_seals() const;
  // After leave(), so that nobody writes to the folder when it is removed, and all know the reason. Waits a
  // few seconds at most, and never throws.
  void wait_until_others_left() const noexcept;

  // The others'.
  void wait_for_folder() const;
  // The last thing a part does before it waits: from here on the checkpoint may get its name at any moment.
  void seal(const SealedPart& own) const;
  // Until the folder is the checkpoint `target`.
  void wait_for_name(const std::filesystem::path& target) const;

 private:
  std::filesystem::path file(const char* kind, int part) const;
  bool has_name(const std::filesystem::path& target) const;
  std::vector<int> parts_with(const char* kind) const;  // other parts, ascending
  int failed_part() const;                              // -1: none
  Error failure_of(int part) const;
  Error missing_but(const std::vector<int>& sealed) const;
  SealedPart read_seal(int part) const;
  std::string part_text(int part) const;

  Options options_;
};

}  // namespace distbelief::checkpoint
