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

// A part's report about its file once the file is on the disk.
struct SealedPart {
  nlohmann::json file;               // as in the manifest
  std::vector<std::string> weights;  // tensors, whole or in pieces, that weights_sha256 covers
};

// SHA-256 over the weights of all parts in name order. Reads them through mappings, so the memory is page
// cache. Throws Error(kBadInput) when two parts have a tensor of the same name.
std::string weights_sha256(const std::filesystem::path& folder, const std::vector<SealedPart>& parts);

// One part of a save that several processes write into one temporary folder, on a file system that all of
// them see. Part 0 makes the folder, waits for the others and gives the checkpoint its name. The parts
// communicate through small files in the folder: sealed-* when a part's file is on the disk, failed-* with
// the reason when a part fails, left-* when a part stops because another failed.
//
// Waits poll every few milliseconds. They end with Error(kTimeout) at the deadline, or with Error(kAborted)
// as soon as another part fails. Not thread-safe.
class Gathering {
 public:
  struct Options {
    std::filesystem::path folder;  // the temporary folder
    int part = 0;
    int parts = 1;
    std::string attempt;
    std::chrono::milliseconds deadline{};  // for each wait
    AtPoint at;
  };
  explicit Gathering(Options options) : options_(std::move(options)) {}

  // Throws Error(kAborted), with the reason if known, when another part has failed or the folder is gone.
  void check() const;
  // Calls the options' `at`, then check(), so a part can stop between two tensors.
  AtPoint watched() const;
  // Tells the others, if possible, why this part ends. Never throws.
  void leave(const std::string& reason) const noexcept;
  bool is_gone() const;
  Error gone() const;

  // For part 0 only.
  std::vector<SealedPart> wait_for_others() const;  // parts 1, 2, ...; the error names missing ones
  void remove_seals() const;
  // Call after leave(): the other parts then stop writing before the folder is removed, and learn the reason.
  // Waits a few seconds at most; never throws.
  void wait_until_others_left() const noexcept;

  // For the other parts.
  void wait_for_folder() const;
  // The last action of a part before it waits: the checkpoint may get its name at any time afterwards.
  void seal(const SealedPart& own) const;
  // Returns when the folder has become the checkpoint `target`.
  void wait_for_name(const std::filesystem::path& target) const;

 private:
  std::filesystem::path file(const char* kind, int part) const;
  bool has_name(const std::filesystem::path& target) const;
  std::vector<int> parts_with(const char* kind) const;  // parts other than this one, ascending
  int failed_part() const;                              // lowest failed part; -1: none
  Error failure_of(int part) const;
  Error missing_but(const std::vector<int>& sealed) const;
  SealedPart read_seal(int part) const;
  std::string part_text(int part) const;

  Options options_;
};

}  // namespace distbelief::checkpoint
