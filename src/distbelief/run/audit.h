#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "distbelief/data/pipeline/batch.h"

namespace distbelief::run {

// Records the samples that a worker's steps saw in RUN/audit/g0001-w0000.txt: a line "step lane sample sample
// ..." per lane and step. A line is in the file before its step can be part of a snapshot or a checkpoint.
// Any thread may call add().
class AuditLog {
 public:
  AuditLog(const std::filesystem::path& run_dir, int generation, int rank);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  void add(std::int64_t step, const data::Batch& batch);
  void commit();  // writes everything added so far, so that it survives the process

 private:
  int file_ = -1;
  std::mutex mutex_;  // guards lines_
  std::string lines_;
};

// The result of checking a run's records.
struct AuditResult {
  bool proven = false;
  std::int64_t steps = 0;
  std::int64_t epochs = 0;  // whole epochs
  std::int64_t redone = 0;  // steps undone by a failure and repeated
  std::string finding;      // what was proven, or the first error
};
// Takes each step as its last generation recorded it, and checks that every step is there and every epoch saw
// every sample once. Throws Error(kBadInput) when there are no records.
AuditResult check_audit(const std::filesystem::path& run_dir, std::uint64_t samples,
                        std::uint64_t steps_per_epoch, std::int64_t lanes);

}  // namespace distbelief::run
