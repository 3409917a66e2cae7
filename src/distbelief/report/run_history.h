#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/report/curve.h"
#include "distbelief/report/json_lines.h"
#include "distbelief/report/phases.h"

namespace distbelief::report {

// An event of a run.
struct RunEvent {
  double time = 0;                     // wall-clock seconds
  std::optional<std::int64_t> step{};  // given by the event, or found from its time
  std::string kind;
  std::string text;  // its details
};

// The content of metrics.jsonl and events.jsonl so far, in bounded memory. Follows a running job: each
// read_new() takes the new lines. Not thread-safe; blocks on the disk.
class RunHistory {
 public:
  explicit RunHistory(const std::filesystem::path& run_dir);
  void read_new();

  // By step. A repeated step replaces its earlier values.
  const Curve& loss() const { return loss_; }
  const Curve& learning_rate() const { return learning_rate_; }
  const std::map<std::string, Curve>& validations() const { return validations_; }  // test_loss, ...
  // By time, in seconds from begin(). Repeated steps count again.
  const Curve& throughput() const { return throughput_; }
  const std::array<Curve, kPhaseCount>& phase_shares() const { return phase_shares_; }  // 0 to 1

  double begin() const { return begin_.value_or(0); }  // wall-clock time
  double end() const { return end_; }
  std::int64_t steps() const { return steps_; }
  bool goes_on() const { return goes_on_; }  // according to the files
  std::vector<RunEvent> events() const;
  std::int64_t events_left_out() const { return events_left_out_; }

 private:
  void take_metrics(const nlohmann::json& line);
  void take_step(const nlohmann::json& line, std::int64_t step);
  void take_phases(const nlohmann::json& line, double time);
  void take_validation(const nlohmann::json& line, std::int64_t step);
  void take_event(const nlohmann::json& line);
  double time_of(const nlohmann::json& line);
  void keep_checkpoint(RunEvent event);

  JsonLines metrics_file_;
  JsonLines events_file_;
  Curve loss_, learning_rate_, throughput_, step_times_;
  std::map<std::string, Curve> validations_;
  std::array<Curve, kPhaseCount> phase_shares_;
  PhaseSeconds phases_before_{};
  double seconds_before_ = 0;  // in the last line
  double segment_begin_ = 0;   // start of the process, for lines without wall-clock time
  std::vector<double> starts_;
  std::size_t segments_ = 0;
  std::vector<RunEvent> events_;
  std::vector<RunEvent> checkpoints_;  // thinned out, because there may be very many
  std::int64_t checkpoints_per_kept_ = 1;
  std::int64_t checkpoints_seen_ = 0;
  std::int64_t events_left_out_ = 0;
  std::optional<double> begin_;
  double end_ = 0;
  std::int64_t steps_ = 0;
  bool goes_on_ = false;
};

}  // namespace distbelief::report
