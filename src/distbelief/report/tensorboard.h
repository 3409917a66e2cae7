#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "distbelief/report/json_lines.h"

namespace distbelief::report {

// A record of a TensorBoard file: length, its masked checksum, data, their masked checksum. All are
// little-endian; the checksums are CRC-32C.
std::string tensorboard_record(std::string_view data);
// The data of a record: a protobuf message tensorflow.Event with one scalar, or with the file version.
std::string scalar_event(double unix_seconds, std::int64_t step, std::string_view tag, float value);
std::string version_event(double unix_seconds);

// RUN/tensorboard/events.out.tfevents.*: the numbers of metrics.jsonl as scalars. metrics.jsonl is its only
// source: each object writes the file anew from the first line and then follows. Not thread-safe; blocks on
// the disk. Throws Error(kUnavailable) with file and reason.
class TensorBoardFile {
 public:
  explicit TensorBoardFile(const std::filesystem::path& run_dir);
  // Appends the new lines since the last call.
  void read_new();

 private:
  void open(double unix_seconds);
  void take(const nlohmann::json& line);
  void append(const std::string& event);
  [[noreturn]] void fail() const;

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path folder_;
  std::filesystem::path path_;
  JsonLines metrics_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace distbelief::report
