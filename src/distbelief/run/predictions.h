#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "distbelief/run/prepared_job.h"

namespace distbelief::run {

// How a classifier does on its test samples: which class it takes for which, and some samples with what it
// says of them, as predictions.json has them (docs/reference/formats.md). Null for a network that does not
// give one class per sample. Takes samples from all over the set, which may be sorted by class, until there
// are enough or the time is up; the network is in training mode afterwards. Blocks for that long.
struct PredictionLimits {
  std::uint64_t samples = 2000;
  std::chrono::duration<double> time{1.0};
};
nlohmann::json score_predictions(const PreparedJob& job, model::Network& network,
                                 const PredictionLimits& limits);
// The same as a file of the run folder, for its report. What fails is logged: the run itself is done.
void keep_predictions(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir);

// The probabilities of classes that a network's outputs [samples, classes] stand for, by what was minimised
// (train.loss).
torch::Tensor probabilities_of(const torch::Tensor& output, const std::string& loss);

}  // namespace distbelief::run
