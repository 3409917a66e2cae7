#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace distbelief::report {

// Reads a .jsonl file that may still be growing, each line once, in memory that does not grow with it. Lines
// that are no JSON objects, and those beyond 1 MiB, are passed over. Not thread-safe; blocks on the disk
// only.
class JsonLines {
 public:
  explicit JsonLines(std::filesystem::path path) : path_(std::move(path)) {}

  // Gives `take` the whole lines that came since the last call. A file that is not there has none.
  void read_new(const std::function<void(const nlohmann::json&)>& take);

 private:
  void take_lines(std::string& text, const std::function<void(const nlohmann::json&)>& take);

  std::filesystem::path path_;
  std::uint64_t offset_ = 0;  // of the first byte that was not taken
  bool skipping_ = false;     // inside a line that is too long
};

}  // namespace distbelief::report
