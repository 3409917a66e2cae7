#include "distbelief/report/run_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace distbelief::report {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostEvents = 1000;
constexpr std::size_t kMostCheckpoints = 200;
constexpr std::size_t kMostValidations = 32;
constexpr std::size_t kLongestKind = 100;
constexpr std::size_t kLongestDetails = 2000;

// Ignores missing values and other types: the files may come from any version.
std::optional<double> number(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// Counts from 0; a double holds larger numbers only inexactly.
std::optional<std::int64_t> step_in(const Json& line) {
  constexpr double kMostSteps = 1LL << 53;
  const auto step = number(line, "step");
  if (!step || !(*step >= 0 && *step <= kMostSteps)) return std::nullopt;
  return std::int64_t(*step);
}

std::string text_of(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string details(const Json& line) {
  std::string text;
  for (const auto& [key, value] : line.items()) {
    if (key == "event" || key == "unix_seconds" || key == "step") continue;
    if (value.is_string() && value.get_ref<const std::string&>().empty()) continue;
    const std::string shown = value.is_string() ? value.get<std::string>()
                              : value.is_number_float()
                                  ? fmt::format("{:.4g}", value.get<double>())
                                  : value.dump(-1, ' ', false, Json::error_handler_t::replace);
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", key.substr(0, kLongestKind), shown.substr(0, 300));
    if (text.size() > kLongestDetails) break;
  }
  return text;
}

}  // namespace

RunHistory::RunHistory(const std::filesystem::path& run_dir)
    : metrics_file_(run_dir / "metrics.jsonl"),
      events_file_(run_dir / "events.jsonl") {}

void RunHistory::read_new() {
  // Events first: metrics without wall-clock time take it from them.
  events_file_.read_new([this](const Json& line) { take_event(line); });
  metrics_file_.read_new([this](const Json& line) { take_metrics(line); });
}

void RunHistory::take_metrics(const Json& line) {
  const auto step = step_in(line);
  if (!step) return;
  if (line.contains("loss"))
    take_step(line, *step);
  else
    take_validation(line, *step);
}

// Files of earlier versions have no wall-clock time, only seconds since the start of their process.
double RunHistory::time_of(const Json& line) {
  const double seconds = number(line, "seconds").value_or(0);
  const bool new_process = segments_ == 0 || seconds < seconds_before_;
  if (new_process) {
    if (segments_ < starts_.size())
      segment_begin_ = starts_[segments_];
    else if (segments_ > 0)
      segment_begin_ = end_;
    ++segments_;
    phases_before_ = {};
  }
  const double elapsed = seconds - (new_process ? 0 : seconds_before_);
  const double time = number(line, "unix_seconds").value_or(segment_begin_ + seconds);
  if (!begin_) begin_ = time - seconds;
  seconds_before_ = seconds;
  end_ = std::max(end_, time);
  if (elapsed > 0) take_phases(line, time - elapsed / 2);
  return time;
}

void RunHistory::take_step(const Json& line, std::int64_t step) {
  const double time = time_of(line);
  const auto x = double(step);
  if (step <= steps_) {
    for (Curve* curve : {&loss_, &learning_rate_, &step_times_}) curve->cut(x);
    for (auto& [name, curve] : validations_) curve.cut(x);
  }
  steps_ = step;
  if (const auto loss = number(line, "loss_mean")) loss_.add(x, *loss);
  if (const auto lr = number(line, "lr")) learning_rate_.add(x, *lr);
  step_times_.add(x, time);
  if (const auto rate = number(line, "samples_per_second")) throughput_.add(time - begin(), *rate);
}

void RunHistory::take_phases(const Json& line, double time) {
  const auto found = line.find("phase_seconds");
  if (found == line.end() || !found->is_object()) return;
  PhaseSeconds now{}, spent{};
  double total = 0;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    now[i] = number(*found, std::string(to_string(Phase(i))).c_str()).value_or(0);
    spent[i] = std::max(0.0, now[i] - phases_before_[i]);
    total += spent[i];
  }
  phases_before_ = now;
  if (!(total > 0) || !std::isfinite(total)) return;  // every phase curve gets a point, or none does
  for (std::size_t i = 0; i < kPhaseCount; ++i) phase_shares_[i].add(time - begin(), spent[i] / total);
}

void RunHistory::take_validation(const Json& line, std::int64_t step) {
  const auto take = [&](const std::string& key, const Json& value) {
    if (!value.is_number()) return;
    if (!validations_.contains(key) && validations_.size() == kMostValidations) return;
    Curve& curve = validations_[key];
    curve.cut(double(step));
    curve.add(double(step), value.get<double>());
  };
  for (const auto& [key, value] : line.items())
    if (key.starts_with("test_")) take(key, value);
  const auto named = line.find("test_metrics");  // includes accuracy, with the same value
  if (named == line.end() || !named->is_object()) return;
  for (const auto& [name, value] : named->items()) take("test_" + name, value);
}

void RunHistory::take_event(const Json& line) {
  RunEvent event{.time = number(line, "unix_seconds").value_or(end_),
                 .kind = text_of(line, "event").substr(0, kLongestKind),
                 .text = details(line)};
  event.step = step_in(line);
  if (!begin_) begin_ = event.time;
  end_ = std::max(end_, event.time);
  if (event.kind == "generation" || event.kind == "started" || event.kind == "resumed") goes_on_ = true;
  if (event.kind == "finished" || event.kind == "ended") goes_on_ = false;
  if (event.kind == "started" || event.kind == "resumed") starts_.push_back(event.time);
  if (event.kind == "checkpoint") return keep_checkpoint(std::move(event));
  if (events_.size() < kMostEvents)
    events_.push_back(std::move(event));
  else
    ++events_left_out_;
}

void RunHistory::keep_checkpoint(RunEvent event) {
  if (checkpoints_seen_++ % checkpoints_per_kept_ != 0) {
    ++events_left_out_;
    return;
  }
  checkpoints_.push_back(std::move(event));
  if (checkpoints_.size() <= kMostCheckpoints) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < checkpoints_.size(); i += 2) checkpoints_[kept++] = std::move(checkpoints_[i]);
  events_left_out_ += std::int64_t(checkpoints_.size() - kept);
  checkpoints_.resize(kept);
  checkpoints_per_kept_ *= 2;
}

std::vector<RunEvent> RunHistory::events() const {
  std::vector<RunEvent> all = events_;
  all.insert(all.end(), checkpoints_.begin(), checkpoints_.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const RunEvent& a, const RunEvent& b) { return a.time < b.time; });
  for (RunEvent& event : all) {
    if (event.step) continue;
    event.step = 0;
    for (const CurvePiece& piece : step_times_.pieces())  // increases with the step
      if (piece.mean() <= event.time) event.step = std::int64_t(piece.last);
  }
  return all;
}

}  // namespace distbelief::report
