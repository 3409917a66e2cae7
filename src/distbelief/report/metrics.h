#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace distbelief::report {

// A file of one JSON object per line: metrics.jsonl, events.jsonl. Appends to an existing file. A line
// reaches the system in one append before append() returns, so it outlives a killed process, and several
// processes may write the same file. Not thread-safe. Throws Error(kUnavailable) naming the file. A line torn
// by a full disk or a power cut is cut off at once or by the next append, so all lines are whole. Only a file
// system without locks may keep a torn line, and readers skip lines that do not parse.
class MetricsLog {
 public:
  explicit MetricsLog(std::filesystem::path path);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  void append(const nlohmann::json& object);

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_whole(std::string_view text);
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// A line of events.jsonl: the kind of event, its wall-clock time and its details.
nlohmann::json event_line(const std::string& kind, nlohmann::json details);

}  // namespace distbelief::report
