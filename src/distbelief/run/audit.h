#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "distbelief/data/pipeline/batch.h"

namespace distbelief::run {

// Records which samples a worker's steps saw: RUN/audit/g0001-w0000.txt, a line "step lane sample sample ..."
// for each lane and step, in the file before the step can be part of a snapshot or a checkpoint. add() may be
// called by any thread.
class AuditLog {
 public:
  AuditLog(const std::filesystem::path& run_dir, int generation, int rank);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  void add(std::int64_t step, const data::Batch& batch);
  void commit();  // what was added is in the file, whatever happens to this process

 private:
  int file_ = -1;
  std::mutex mutex_;  // guards lines_
  std::string lines_;
};

// What the records of a run prove.
struct AuditResult {
  bool proven = false;
  std::int64_t steps = 0;
  std::int64_t epochs = 0;  // whole ones
  std::int64_t redone = 0;  // steps that were undone by a failure and done again
  std::string finding;      // what was proven, or the first thing that is wrong
};
// Takes each step as its last generation recorded it, and checks that all steps are there and every epoch
// saw every sample once. Throws Error(kBadInput) when there are no records.
AuditResult check_audit(const std::filesystem::path& run_dir, std::uint64_t samples,
                        std::uint64_t steps_per_epoch, std::int64_t lanes);

}  // namespace distbelief::run
