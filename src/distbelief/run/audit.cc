#include "distbelief/run/audit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "distbelief/base/error.h"

namespace distbelief::run {
namespace {

namespace fs = std::filesystem;

struct Record {
  int generation = 0;
  std::vector<std::uint64_t> samples;
};
using Records = std::map<std::pair<std::int64_t, std::int64_t>, Record>;  // by step and lane

[[noreturn]] void fail(const fs::path& path) {
  throw Error(ErrorCode::kUnavailable,
              fmt::format("cannot write the audit record {}: {}", path.string(), std::strerror(errno)));
}

// A later generation's lines replace those of the same step from an earlier one. A torn last line was never
// committed.
void read_records(const fs::path& path, Records& records, std::int64_t& redone) {
  const int generation = std::stoi(path.filename().string().substr(1));
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;
    std::istringstream numbers(line);
    std::int64_t step = 0, lane = 0;
    numbers >> step >> lane;
    Record record{generation, {}};
    for (std::uint64_t sample = 0; numbers >> sample;) record.samples.push_back(sample);
    Record& known = records[{step, lane}];
    if (known.generation > 0 && lane == 0) ++redone;
    if (known.generation < generation) known = std::move(record);
  }
}

}  // namespace

AuditLog::AuditLog(const fs::path& run_dir, int generation, int rank) {
  fs::create_directories(run_dir / "audit");
  const fs::path path = run_dir / "audit" / fmt::format("g{:04}-w{:04}.txt", generation, rank);
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) fail(path);
}

AuditLog::~AuditLog() { close(file_); }

void AuditLog::add(std::int64_t step, const data::Batch& batch) {
  const std::lock_guard lock(mutex_);
  lines_ += fmt::format("{} {}", step, batch.lane);
  for (const std::uint64_t sample : batch.samples) lines_ += fmt::format(" {}", sample);
  lines_ += '\n';
}

void AuditLog::commit() {
  const std::lock_guard lock(mutex_);
  for (std::size_t done = 0; done < lines_.size();) {
    const ssize_t written = write(file_, lines_.data() + done, lines_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("audit");
    done += std::size_t(written);
  }
  lines_.clear();
}

AuditResult check_audit(const fs::path& run_dir, std::uint64_t samples, std::uint64_t steps_per_epoch,
                        std::int64_t lanes) {
  if (!fs::is_directory(run_dir / "audit"))
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} has no audit records: train with --set report.audit=true", run_dir.string()));
  Records records;
  AuditResult result;
  for (const auto& entry : fs::directory_iterator(run_dir / "audit"))
    read_records(entry.path(), records, result.redone);
  std::vector<std::uint8_t> seen(samples);
  std::int64_t next_step = 0, next_lane = 0;
  for (const auto& [place, record] : records) {
    if (place != std::pair(next_step, next_lane)) {
      result.finding = fmt::format("step {}, lane {} is missing", next_step, next_lane);
      return result;
    }
    for (const std::uint64_t sample : record.samples) {
      if (sample >= samples || seen[sample] != 0) {
        result.finding = fmt::format("sample {} was seen twice in epoch {}, the second time in step {}",
                                     sample, result.epochs + 1, next_step);
        return result;
      }
      seen[sample] = 1;
    }
    if (++next_lane < lanes) continue;
    next_lane = 0;
    result.steps = ++next_step;
    if (next_step % std::int64_t(steps_per_epoch) != 0) continue;
    const auto missing = std::find(seen.begin(), seen.end(), 0);
    if (missing != seen.end()) {
      result.finding =
          fmt::format("sample {} was not seen in epoch {}", missing - seen.begin(), result.epochs + 1);
      return result;
    }
    std::fill(seen.begin(), seen.end(), std::uint8_t{0});
    ++result.epochs;
  }
  result.proven = true;
  result.finding = fmt::format(
      "{} steps: each of {} whole epochs saw every one of {} samples exactly once; {} steps were done again "
      "after "
      "a loss",
      result.steps, result.epochs, samples, result.redone);
  return result;
}

}  // namespace distbelief::run
