#include "distbelief/server/shard/update_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/base/json_text.h"
#include "distbelief/base/text_lines.h"
#include "distbelief/compute/row_values.h"
#include "distbelief/server/client/server_map.h"

namespace distbelief::server {
namespace {

double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

void RowsRecord::Part::add(std::uint64_t id) {
  ++rows;
  ids = std::int64_t((std::uint64_t(ids) + compute::mix(id)) & std::numeric_limits<std::int64_t>::max());
}

std::string job_mark(const std::string& job) {
  constexpr std::size_t kDigits = 16;
  Sha256 hash;
  hash.update(job.data(), job.size());
  return hash.hex().substr(0, kDigits);
}

UpdateLog::UpdateLog(const std::filesystem::path& path)
    : path_(path),
      file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (file_ < 0)
    throw Error(ErrorCode::kUnavailable, fmt::format("the log of updates {} cannot be written: {}",
                                                     path.string(), std::strerror(errno)));
}

UpdateLog::~UpdateLog() { ::close(file_); }

void UpdateLog::append_job(const std::string& mark) {
  write_line(fmt::format(R"({{"job":"{}"}})"
                         "\n",
                         mark));
}

void UpdateLog::note_over() { note("{\"over\":true}\n"); }

void UpdateLog::append(const UpdateRecord& record) {
  const std::string of =
      record.of.empty() ? std::string() : fmt::format(R"(,"of":[{}])", fmt::join(record.of, ","));
  write_line(fmt::format(R"({{"slice":{},"version":{},"ticket":{},"replica":{},"base":{},"lr":{:.17g}{}}})"
                         "\n",
                         record.slice, record.version, record.ticket, record.replica, record.base, record.lr,
                         of));
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

void UpdateLog::append_table(std::int32_t table, const std::string& name) {
  write_line(nlohmann::json{{"table", table}, {"name", name}}.dump() + "\n");
}

void UpdateLog::append_rows(const RowsRecord& record) {
  fmt::memory_buffer line;
  fmt::format_to(std::back_inserter(line), R"({{"rows":{},"ticket":{},"replica":{},"parts":"{:016x}","of":[)",
                 record.table, record.ticket, record.replica, record.parts);
  const char* comma = "";
  for (const RowsRecord::Part& part : record.rows) {
    fmt::format_to(std::back_inserter(line), "{}{},{},{}", comma, part.part, part.rows, part.ids);
    comma = ",";
  }
  fmt::format_to(std::back_inserter(line), "]}}\n");
  write_line(fmt::to_string(line));
}

void UpdateLog::append_rows_given(std::int32_t table, int part, std::int64_t below,
                                  const std::vector<std::int64_t>& ranges) {
  write_line(fmt::format(R"({{"rows_given":{},"part":{},"below":{},"ranges":[{}]}})"
                         "\n",
                         table, part, below, fmt::join(ranges, ",")));
}

void UpdateLog::note_rows_forgotten(std::int32_t table, int part) {
  note(fmt::format(R"({{"rows_forgotten":{},"part":{}}})"
                   "\n",
                   table, part));
}

void UpdateLog::append_begin(std::int32_t replica, std::int64_t clock, std::int64_t slowest,
                             std::int64_t ticket) {
  write_line(fmt::format(R"({{"begin":{},"clock":{},"slowest":{},"ticket":{}}})"
                         "\n",
                         replica, clock, slowest, ticket));
}

void UpdateLog::note_joined(std::int32_t replica, std::int64_t clock) {
  note(fmt::format(R"({{"joined":{},"clock":{}}})"
                   "\n",
                   replica, clock));
}

void UpdateLog::note_left(std::int32_t replica) {
  note(fmt::format(R"({{"left":{}}})"
                   "\n",
                   replica));
}

void UpdateLog::append_fetched(std::span<const std::int64_t> versions) {
  write_line(fmt::format(R"({{"fetched":[{}],"unix_seconds":{:.6f}}})"
                         "\n",
                         fmt::join(versions, ","), seconds_since_epoch()));
}

void UpdateLog::append_acknowledged(std::int64_t ticket, const std::vector<std::int64_t>& versions) {
  append_answers("acknowledged", ticket, versions);
}

void UpdateLog::append_late(std::int64_t ticket, const std::vector<std::int64_t>& versions) {
  append_answers("late", ticket, versions);
}

void UpdateLog::append_answers(const char* what, std::int64_t ticket,
                               const std::vector<std::int64_t>& versions) {
  write_line(fmt::format(R"({{"{}":{},"unix_seconds":{:.6f},"versions":[{}]}})"
                         "\n",
                         what, ticket, seconds_since_epoch(), fmt::join(versions, ",")));
}

// Removes a half-written line: it would be read as the beginning of the next.
void UpdateLog::write_line(const std::string& line) {
  const std::lock_guard lock(mutex_);
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = ::write(file_, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int why = errno;
      struct stat now {};
      if (written > 0 && (fstat(file_, &now) != 0 || ftruncate(file_, now.st_size - off_t(written)) != 0))
        spdlog::error("the log of updates {} ends with half a line: {}", path_.string(),
                      std::strerror(errno));
      throw Error(ErrorCode::kUnavailable, fmt::format("the log of updates {} cannot be written: {}",
                                                       path_.string(), std::strerror(why)));
    }
    written += std::size_t(count);
  }
}

// Writes a line that is no update: a failure refuses no request and undoes nothing.
void UpdateLog::note(const std::string& line) {
  try {
    write_line(line);
  } catch (const Error& error) {
    spdlog::error("{}", error.what());
  }
}

std::unique_ptr<UpdateLog> open_log_of_pushes(const std::filesystem::path& path) {
  if (path.empty()) return nullptr;
  std::filesystem::create_directories(path.parent_path());
  return std::make_unique<UpdateLog>(path);
}

namespace {

constexpr std::size_t kLongestRecord = 16 << 20;  // has a version for each slice

std::vector<std::int64_t> numbers_in(const nlohmann::json& list) {
  std::vector<std::int64_t> numbers;
  for (const nlohmann::json& number : list) numbers.push_back(whole_number(number));
  return numbers;
}

int part_in(std::int64_t number) {
  if (number < 0 || number >= kParts)
    throw Error(ErrorCode::kBadInput, fmt::format("part {} of {}", number, kParts));
  return int(number);
}

std::uint64_t parts_in(const nlohmann::json& value) {
  const auto text = value.get<std::string>();
  std::uint64_t parts = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parts, 16);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(ErrorCode::kBadInput, "parts are no hexadecimal number");
  return parts;
}

// Reads a line about a table's rows; nothing: the line is about something else.
std::optional<LogLine> rows_line_from(const nlohmann::json& value) {
  using Kind = LogLine::Kind;
  const auto small = [](const nlohmann::json& number) {
    return std::int32_t(whole_number(number, 0, std::numeric_limits<std::int32_t>::max()));
  };
  LogLine line;
  if (value.contains("table")) {
    line.kind = Kind::kTable;
    line.rows.table = small(value.at("table"));
  } else if (value.contains("rows")) {
    line.kind = Kind::kRows;
    line.rows = {.table = small(value.at("rows")),
                 .ticket = whole_number(value.at("ticket")),
                 .replica = small(value.at("replica")),
                 .parts = parts_in(value.at("parts"))};
    const std::vector<std::int64_t> of = numbers_in(value.at("of"));
    for (std::size_t i = 0; i + 2 < of.size(); i += 3)
      line.rows.rows.push_back({.part = part_in(of[i]), .rows = of[i + 1], .ids = of[i + 2]});
  } else if (value.contains("rows_given") || value.contains("rows_forgotten")) {
    const bool is_given = value.contains("rows_given");
    line.kind = is_given ? Kind::kRowsGiven : Kind::kRowsForgotten;
    line.rows = {.table = small(value.at(is_given ? "rows_given" : "rows_forgotten")),
                 .parts = std::uint64_t{1} << part_in(whole_number(value.at("part")))};
    if (is_given) line.below = whole_number(value.at("below"));
    if (is_given) line.ranges = numbers_in(value.at("ranges"));
  } else {
    return std::nullopt;
  }
  return line;
}

std::optional<LogLine> line_from(const nlohmann::json& value) {
  using Kind = LogLine::Kind;
  const auto number = [&](const char* key) {
    return value.contains(key) ? whole_number(value.at(key)) : std::int64_t{0};
  };
  const auto replica = [&](const char* key) {
    using Limits = std::numeric_limits<std::int32_t>;
    return value.contains(key) ? std::int32_t(whole_number(value.at(key), Limits::min(), Limits::max())) : 0;
  };
  LogLine line;
  if (value.contains("slice")) {
    line.update = {.slice = number("slice"),
                   .version = number("version"),
                   .ticket = number("ticket"),
                   .replica = replica("replica"),
                   .base = number("base"),
                   .lr = value.value("lr", 0.0)};
    if (value.contains("of"))
      for (const nlohmann::json& one : value.at("of"))
        line.update.of.push_back(
            std::int32_t(whole_number(one, 0, std::numeric_limits<std::int32_t>::max())));
  } else if (value.contains("command")) {
    line.kind = Kind::kCommand;
    line.update = {.slice = number("of"), .version = number("version")};
    line.number = number("command");
  } else if (value.contains("evaluation")) {
    line.kind = Kind::kEvaluation;
    line.number = number("evaluation");
  } else if (value.contains("installed")) {
    line.kind = Kind::kInstalled;
    line.update = {.slice = number("installed"), .version = number("version")};
  } else if (value.contains("acknowledged") || value.contains("late")) {
    const bool is_late = value.contains("late");
    line.kind = is_late ? Kind::kLate : Kind::kAcknowledged;
    line.update.ticket = number(is_late ? "late" : "acknowledged");
    line.versions = numbers_in(value.at("versions"));
  } else if (value.contains("job")) {
    line.kind = Kind::kJob;
    line.mark = value.at("job").get<std::string>();
  } else if (value.contains("over")) {
    line.kind = Kind::kOver;
  } else {
    if (std::optional<LogLine> rows = rows_line_from(value)) return rows;
    const char* const key = value.contains("begin") ? "begin" : value.contains("joined") ? "joined" : "left";
    if (!value.contains(key)) return std::nullopt;
    line.kind = *key == 'b' ? Kind::kBegin : *key == 'j' ? Kind::kJoined : Kind::kLeft;
    line.update.replica = replica(key);
    line.clock = number("clock");
    line.slowest = number("slowest");
    line.update.ticket = number("ticket");
  }
  return line;
}

}  // namespace

std::vector<LogLine> read_log(const std::filesystem::path& path) {
  TextLines file(path, {.line_bytes = kLongestRecord});
  if (!file.is_open()) throw Error(ErrorCode::kUnavailable, fmt::format("{} cannot be read", path.string()));
  std::vector<LogLine> lines;
  while (file.next() && !file.is_cut()) {
    try {
      if (std::optional<LogLine> line = line_from(parse_json(file.line(), "record")))
        lines.push_back(*std::move(line));
    } catch (const std::exception& error) {
      throw file.fault(fmt::format("no record: {}", error.what()));
    }
  }
  return lines;
}

std::string mark_of_log(const std::filesystem::path& path) {
  TextLines file(path, {.line_bytes = kLongestRecord});
  if (!file.next() || file.is_cut()) return {};
  const nlohmann::json first = json_or_discarded(file.line());
  return first.is_object() && first.contains("job") && first.at("job").is_string()
             ? first.at("job").get<std::string>()
             : std::string();
}

std::vector<UpdateRecord> read_updates(const std::filesystem::path& path) {
  std::vector<UpdateRecord> records;
  for (const LogLine& line : read_log(path))
    if (line.kind == LogLine::Kind::kUpdate) records.push_back(line.update);
  return records;
}

}  // namespace distbelief::server
