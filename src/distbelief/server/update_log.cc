#include "distbelief/server/update_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"

namespace distbelief::server {

UpdateLog::UpdateLog(const std::filesystem::path& path)
    : path_(path),
      file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (file_ < 0)
    throw Error(ErrorCode::kUnavailable, fmt::format("the log of updates {} cannot be written: {}",
                                                     path.string(), std::strerror(errno)));
}

UpdateLog::~UpdateLog() { ::close(file_); }

void UpdateLog::append(const UpdateRecord& record) {
  write_line(fmt::format(R"({{"slice":{},"version":{},"ticket":{},"replica":{},"base":{},"lr":{:.17g}}})"
                         "\n",
                         record.slice, record.version, record.ticket, record.replica, record.base,
                         record.lr));
}

void UpdateLog::append_installed(std::int64_t slice, std::int64_t version) {
  write_line(fmt::format(R"({{"installed":{},"version":{}}})"
                         "\n",
                         slice, version));
}

void UpdateLog::append_command(std::int64_t slice, std::int64_t version, std::int64_t sequence) {
  write_line(fmt::format(R"({{"command":{},"of":{},"version":{}}})"
                         "\n",
                         sequence, slice, version));
}

void UpdateLog::append_evaluation(const std::string& members) { write_line("{" + members + "}\n"); }

void UpdateLog::append_begin(std::int32_t replica, std::int64_t clock, std::int64_t slowest) {
  write_line(fmt::format(R"({{"begin":{},"clock":{},"slowest":{}}})"
                         "\n",
                         replica, clock, slowest));
}

void UpdateLog::write_line(const std::string& line) {
  const std::lock_guard lock(mutex_);
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = ::write(file_, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw Error(ErrorCode::kUnavailable, fmt::format("the log of updates {} cannot be written: {}",
                                                       path_.string(), std::strerror(errno)));
    written += std::size_t(count);
  }
}

std::vector<UpdateRecord> read_updates(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorCode::kUnavailable, fmt::format("{} cannot be read", path.string()));
  std::vector<UpdateRecord> records;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    const bool is_cut = file.eof();  // no newline at its end
    const nlohmann::json value = nlohmann::json::parse(line, nullptr, false);
    if (value.is_discarded() || !value.is_object()) {
      if (is_cut) break;
      throw Error(ErrorCode::kBadInput, fmt::format("{}, line {}: no record", path.string(), number));
    }
    if (!value.contains("slice")) continue;
    records.push_back({.slice = value.value("slice", std::int64_t{0}),
                       .version = value.value("version", std::int64_t{0}),
                       .ticket = value.value("ticket", std::int64_t{0}),
                       .replica = value.value("replica", 0),
                       .base = value.value("base", std::int64_t{0}),
                       .lr = value.value("lr", 0.0)});
  }
  return records;
}

}  // namespace distbelief::server
