#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "distbelief/run/prepared_job.h"

namespace distbelief::run {

// Results of a classifier on its test samples: the confusion matrix, and some samples with their predictions,
// in the format of predictions.json (docs/reference/formats.md). Null for a network that does not predict one
// class per sample. Takes samples from the whole set, which may be sorted by class, until it has enough or
// the time is up; blocks for that long. Leaves the network in training mode.
struct PredictionLimits {
  std::uint64_t samples = 2000;
  std::chrono::duration<double> time{1.0};
};
nlohmann::json score_predictions(const PreparedJob& job, model::Network& network,
                                 const PredictionLimits& limits);
// Writes the same to a file of the run folder, for its report. A failure is only logged, because the run
// itself is done.
void keep_predictions(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir);

// Converts a network's outputs [samples, classes] to probabilities, according to the loss (train.loss).
torch::Tensor probabilities_of(const torch::Tensor& output, const std::string& loss);

}  // namespace distbelief::run
