#include "distbelief/run/recorder.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "distbelief/base/error.h"

namespace distbelief::run {
namespace {

constexpr std::size_t kStepsRemembered = 8192;

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Recorder::Recorder(Options options)
    : options_(std::move(options)),
      metrics_(options_.run_dir / "metrics.jsonl"),
      events_(options_.run_dir / "events.jsonl"),
      progress_(options_.progress) {
  step_seconds_.reserve(kStepsRemembered);
}

report::ProgressState Recorder::shown(const RunProgress& progress) const {
  const double per_step = seconds(Clock::now() - started_) /
                          double(std::max<std::int64_t>(1, progress.step - options_.first_step));
  const std::int64_t ended =
      progress.step_in_epoch == 0 ? 1 : 0;  // the step just done belongs to the previous epoch
  return {.epoch = std::min(options_.epochs, progress.epoch + 1 - ended),
          .epochs = options_.epochs,
          .step = progress.step,
          .steps = options_.total_steps,
          .loss = progress.last_loss,
          .samples_per_second = samples_per_second_,
          .seconds_left = per_step * double(options_.total_steps - progress.step),
          .test_accuracy = test_accuracy_};
}

// A full disk loses lines, not the run.
void Recorder::append(report::MetricsLog& log, const nlohmann::json& line) {
  try {
    log.append(line);
    disk_refused_ = false;
  } catch (const Error& error) {
    if (!disk_refused_) spdlog::warn("{}; training goes on", error.what());
    disk_refused_ = true;
  }
}

void Recorder::step_done(const RunProgress& progress, std::int64_t samples, double lr,
                         const report::PhaseSeconds& phases) {
  const auto now = Clock::now();
  const auto took = float(seconds(now - last_step_));
  last_step_ = now;
  if (step_seconds_.size() < kStepsRemembered)
    step_seconds_.push_back(took);
  else
    step_seconds_[next_step_slot_++ % kStepsRemembered] = took;
  samples_since_line_ += samples;
  ++steps_since_line_;
  loss_since_line_ += progress.last_loss;
  last_ = {progress.step, progress.samples, progress.last_loss, lr, phases};
  const double since = seconds(now - last_line_);
  if (since >= options_.report.interval_seconds || progress.step == options_.total_steps) write_line(now);
  if (samples_per_second_ == 0) samples_per_second_ = double(samples_since_line_) / std::max(1e-9, since);
  if ((progress.step & 15) == 0 || took > 0.01F) progress_.update(shown(progress), now);
}

void Recorder::write_line(Clock::time_point now) {
  samples_per_second_ = double(samples_since_line_) / std::max(1e-9, seconds(now - last_line_));
  const nlohmann::json straggler =
      straggler_ < 0 ? nlohmann::json() : nlohmann::json{{"worker", straggler_}, {"slowness", slowness_}};
  append(metrics_, {{"step", last_.step},
                    {"epoch", double(last_.step) / double(options_.steps_per_epoch)},
                    {"loss", last_.loss},
                    {"loss_mean", loss_since_line_ / double(steps_since_line_)},
                    {"lr", last_.lr},
                    {"samples", last_.samples},
                    {"samples_per_second", samples_per_second_},
                    {"seconds", seconds(now - started_)},
                    {"unix_seconds", unix_seconds()},
                    {"phase_seconds", report::to_json(last_.phases)},
                    {"straggler", straggler}});
  last_line_ = now;
  samples_since_line_ = 0;
  steps_since_line_ = 0;
  loss_since_line_ = 0;
}

void Recorder::evaluated(const RunProgress& progress, const tasks::Evaluation& evaluation, double took) {
  nlohmann::json line{{"step", progress.step},
                      {"epoch", double(progress.step) / double(options_.steps_per_epoch)},
                      {"test_loss", evaluation.loss},
                      {"unix_seconds", unix_seconds()},
                      {"validation_seconds", took}};
  for (const tasks::Metric& metric : evaluation.metrics) {
    line["test_metrics"][metric.name] = metric.value;
    if (metric.name != "accuracy") continue;
    test_accuracy_ = metric.value;
    line["test_accuracy"] = metric.value;
  }
  append(metrics_, line);
  progress_.end_epoch(shown(progress), Clock::now());
  last_step_ = Clock::now();  // validation is not part of a step
}

void Recorder::event(const std::string& kind, nlohmann::json details) {
  append(events_, report::event_line(kind, std::move(details)));
}

void Recorder::note_straggler(int worker, double slowness) {
  straggler_ = worker;
  slowness_ = slowness;
}

void Recorder::finish() {
  if (steps_since_line_ > 0) write_line(last_step_);
  progress_.finish();
}

double Recorder::step_seconds_median() const {
  if (step_seconds_.empty()) return 0;
  std::vector<float> sorted = step_seconds_;
  std::nth_element(sorted.begin(), sorted.begin() + std::ptrdiff_t(sorted.size() / 2), sorted.end());
  return sorted[sorted.size() / 2];
}

}  // namespace distbelief::run
