#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>

#include "distbelief/run/code_clusters.h"
#include "distbelief/run/prepared_job.h"

// Groups that an autoencoder's codes fall in, found by k-means on those of the test samples: clusters.json of
// a run folder (docs/reference/formats.md).
namespace distbelief::run {

// What model.clusters says, or as many as the data has classes; 0: none are looked for. `options` are
// resolved ones of a model with a code.
std::size_t cluster_count(const OptionMap& options, const data::SampleSpec& spec);

// Writes the centres, whole or not at all; false where the task has no code or there are no groups to look
// for. Goes through all test samples: blocks for that long, and throws Error(kUnavailable) when it is longer
// than `most_time`. The network is in training mode afterwards.
bool keep_clusters(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir,
                   std::chrono::duration<double> most_time);

}  // namespace distbelief::run
