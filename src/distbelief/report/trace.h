#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace distbelief::report {

// A timeline of a worker in the JSON of chrome://tracing and ui.perfetto.dev. Kept in bounded memory; events
// beyond the limit are only counted. Any thread may call any member; only write_merged() blocks on the disk.
class Trace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Options {
    int rank = 0;  // shown as the process
    std::string process_name;
    Time origin;  // time zero; workers on other hosts give their own reading of the same moment
    std::size_t max_events = 200'000;
  };
  explicit Trace(Options options);

  void name_thread(int thread, std::string name);

  // `args` is the text of a JSON object, shown with the span; other text is shown as a note.
  void span(std::string_view name, std::string_view category, Time begin, Time end, int thread,
            std::string_view args = {});

  std::size_t size() const;
  std::uint64_t dropped() const;

  // A JSON array of all events, which a worker sends to the root.
  std::string json() const;

  // One file from the arrays of several workers. Throws Error(kBadInput) when a text is not a JSON array,
  // Error(kUnavailable) when the file cannot be written.
  static void write_merged(const std::filesystem::path& path, const std::vector<std::string>& per_rank_json);

 private:
  struct Event {
    std::string name;
    std::string category;
    Time begin;
    Time end;
    int thread;
    std::string args;
  };

  const Options options_;
  mutable std::mutex mutex_;
  std::vector<Event> events_;
  std::map<int, std::string> thread_names_;
  std::uint64_t dropped_ = 0;
};

}  // namespace distbelief::report
