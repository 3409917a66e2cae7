#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/report/metrics.h"
#include "distbelief/report/phases.h"
#include "distbelief/report/progress.h"
#include "distbelief/report/summary.h"
#include "distbelief/run/run_progress.h"
#include "distbelief/tasks/evaluation.h"

namespace distbelief::run {

// The live output of a run for people: metrics.jsonl, events.jsonl and the progress bar. Only rank 0 has one.
class Recorder {
 public:
  struct Options {
    std::filesystem::path run_dir;
    ReportConfig report;
    report::Progress::Options progress;
    std::int64_t epochs = 0;
    std::int64_t total_steps = 0;
    std::int64_t steps_per_epoch = 0;
    std::int64_t first_step = 0;  // the first step of this process; above 0 in a resumed run
  };
  explicit Recorder(Options options);

  void step_done(const RunProgress& progress, std::int64_t samples, double lr,
                 const report::PhaseSeconds& phases);
  void evaluated(const RunProgress& progress, const tasks::Evaluation& evaluation, double seconds);
  void event(const std::string& kind, nlohmann::json details);
  // Adds the straggler to the next lines of metrics; worker -1: none.
  void note_straggler(int worker, double slowness);
  void finish();  // writes a line for the steps since the last line

  // Median over the last few thousand steps.
  double step_seconds_median() const;

 private:
  using Clock = std::chrono::steady_clock;
  report::ProgressState shown(const RunProgress& progress) const;

  void append(report::MetricsLog& log, const nlohmann::json& line);
  void write_line(Clock::time_point now);  // for the steps since the last line

  Options options_;
  report::MetricsLog metrics_;
  report::MetricsLog events_;
  report::Progress progress_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_line_ = started_;
  Clock::time_point last_step_ = started_;
  std::int64_t samples_since_line_ = 0;
  std::int64_t steps_since_line_ = 0;
  double loss_since_line_ = 0;
  struct {
    std::int64_t step = 0;
    std::int64_t samples = 0;
    double loss = 0;
    double lr = 0;
    report::PhaseSeconds phases{};
  } last_;  // the last step
  double samples_per_second_ = 0;
  std::optional<double> test_accuracy_;
  std::vector<float> step_seconds_;
  std::size_t next_step_slot_ = 0;
  int straggler_ = -1;
  double slowness_ = 1;
  bool disk_refused_ = false;  // the last line could not be written
};

}  // namespace distbelief::run
