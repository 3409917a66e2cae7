#include "distbelief/compute/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "distbelief/base/error.h"

namespace distbelief::compute {

double learning_rate(const ScheduleConfig& schedule, double base_rate, std::int64_t step,
                     std::int64_t steps_per_epoch, std::int64_t total_steps) {
  if (step < schedule.warmup_steps) return base_rate * double(step + 1) / double(schedule.warmup_steps);
  if (schedule.name == "constant") return base_rate;
  if (schedule.name == "step") {
    const std::int64_t epoch = step / std::max<std::int64_t>(1, steps_per_epoch);
    const std::int64_t drops = epoch / schedule.step_epochs;
    return base_rate * std::pow(schedule.gamma, double(drops));
  }
  DISTBELIEF_INVARIANT(schedule.name == "cosine");
  const double span = double(std::max<std::int64_t>(1, total_steps - schedule.warmup_steps));
  const double done = std::min(1.0, double(step - schedule.warmup_steps) / span);
  return schedule.min_lr + (base_rate - schedule.min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names{"constant", "step", "cosine"};
  return names;
}

}  // namespace distbelief::compute
