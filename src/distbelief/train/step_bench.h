#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "distbelief/base/config.h"
#include "distbelief/comm/world.h"

namespace distbelief::train {

struct StepBenchOptions {
  Config config;  // model, optimizer and parallel settings; batch_size is global
  std::int64_t steps = 100;
  std::function<void()> when_built;  // called before the first step; may be empty
};

// Times training steps of [model] on fixed random data, as `train` takes them: batches come from a loader
// with its settings. Collective; rank 0's answer is complete: step_seconds_median and _mean, parameters,
// peak_rss_bytes, peak_pss_bytes, ...
nlohmann::json bench_step(World& world, const StepBenchOptions& options);

// Times forward and backward of [model] alone on such a batch, on the calling thread, as a lane runs them;
// gradients are made and dropped. Blocks. Answers seconds_median and _mean, parameters, ...
nlohmann::json bench_network(const StepBenchOptions& options);

// Times allreduce of several sizes against MPI's own and against memcpy by all ranks at once.
nlohmann::json bench_allreduce(World& world, const std::vector<std::size_t>& sizes, int repeats);

}  // namespace distbelief::train
