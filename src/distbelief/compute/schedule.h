#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/base/config.h"

namespace distbelief::compute {

// The learning rate of a step. Pure. `step` counts from 0 over the whole run of `total_steps`. Warm-up rises
// linearly to the base rate. Cosine then falls over the remaining steps; the step schedule counts its epochs
// from the start of the run.
double learning_rate(const ScheduleConfig& schedule, double base_rate, std::int64_t step,
                     std::int64_t steps_per_epoch, std::int64_t total_steps);

const std::vector<std::string>& schedule_names();  // constant, step, cosine

}  // namespace distbelief::compute
