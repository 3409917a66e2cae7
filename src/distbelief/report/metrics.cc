#include "distbelief/report/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "distbelief/base/error.h"

namespace distbelief::report {

namespace {

// Locks the file against other writers. Gives up after a short time, in case the holder is stopped.
class Turn {
 public:
  explicit Turn(int descriptor) : descriptor_(descriptor) {
    constexpr int kTries = 50;
    for (int i = 0; i < kTries && !held_; ++i) {
      held_ = flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
      if (!held_ && errno != EWOULDBLOCK && errno != EINTR) return;  // this file system has no locks
      if (!held_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  ~Turn() {
    if (held_) flock(descriptor_, LOCK_UN);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool held() const { return held_; }

 private:
  int descriptor_;
  bool held_ = false;
};

off_t size_of(int descriptor) { return lseek(descriptor, 0, SEEK_END); }

// Offset of the end of the last whole line.
off_t end_of_lines(int descriptor) {
  char byte = 0;
  for (off_t end = size_of(descriptor); end > 0; --end)
    if (pread(descriptor, &byte, 1, end - 1) != 1 || byte == '\n') return end;
  return 0;
}

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
}

MetricsLog::~MetricsLog() { close(descriptor_); }

void MetricsLog::fail(int error) const {
  throw Error(
      ErrorCode::kUnavailable,
      fmt::format("cannot append to {}: {}; make room, check the permissions, or choose another run folder",
                  path_.string(), std::generic_category().message(error)));
}

void MetricsLog::write_whole(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(written < 0 ? errno : EIO);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

nlohmann::json event_line(const std::string& kind, nlohmann::json details) {
  details["event"] = kind;
  details["unix_seconds"] =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return details;
}

void MetricsLog::append(const nlohmann::json& object) {
  using Json = nlohmann::json;
  // Replaces invalid UTF-8: a strange file name must not end a run.
  std::string line = object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const Turn turn(descriptor_);
  const off_t whole = end_of_lines(descriptor_);
  const bool torn = whole != size_of(descriptor_);
  // Without the lock, another writer may be in the middle of that line.
  if (torn && (!turn.held() || ftruncate(descriptor_, whole) != 0)) line.insert(0, "\n");
  try {
    write_whole(line);
  } catch (...) {
    // If this fails, the next append cuts the line off.
    [[maybe_unused]] const bool cut = turn.held() && ftruncate(descriptor_, whole) == 0;
    throw;
  }
}

}  // namespace distbelief::report
