#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace distbelief::report {

// Reads a .jsonl file that may still be growing, each line once, in bounded memory. Skips lines that are not
// JSON objects and lines over 1 MiB. Not thread-safe; blocks only on the disk.
class JsonLines {
 public:
  explicit JsonLines(std::filesystem::path path) : path_(std::move(path)) {}

  // Passes the complete lines since the last call to `take`; none for a missing file.
  void read_new(const std::function<void(const nlohmann::json&)>& take);

 private:
  void take_lines(std::string& text, const std::function<void(const nlohmann::json&)>& take);

  std::filesystem::path path_;
  std::uint64_t offset_ = 0;  // first byte not yet taken
  bool skipping_ = false;     // inside a line that is too long
};

}  // namespace distbelief::report
