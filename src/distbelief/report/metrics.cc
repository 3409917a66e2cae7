#include "distbelief/report/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "distbelief/base/error.h"

namespace distbelief::report {

MetricsLog::MetricsLog(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
  torn_ = ends_torn();
}

MetricsLog::~MetricsLog() { close(descriptor_); }

void MetricsLog::fail(int error) const {
  throw Error(
      ErrorCode::kUnavailable,
      fmt::format("cannot append to {}: {}; make room, check the permissions, or choose another run folder",
                  path_.string(), std::generic_category().message(error)));
}

bool MetricsLog::ends_torn() const {
  const off_t size = lseek(descriptor_, 0, SEEK_END);
  char last = '\n';
  return size > 0 && pread(descriptor_, &last, 1, size - 1) == 1 && last != '\n';
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
  // Replacing what is not UTF-8: a strange file name must not end a run.
  std::string line = object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (torn_) line.insert(0, "\n");
  try {
    write_whole(line);
    torn_ = false;
  } catch (...) {
    torn_ = ends_torn();
    throw;
  }
}

}  // namespace distbelief::report
