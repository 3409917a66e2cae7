#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>

#include "distbelief/run/code_clusters.h"
#include "distbelief/run/prepared_job.h"

// Clusters of an autoencoder's codes, found by k-means on the codes of the test samples: clusters.json of a
// run folder (docs/reference/formats.md).
namespace distbelief::run {

// model.clusters, or by default the number of classes in the data; 0: no clustering. `options` are the
// resolved options of a model with a code.
std::size_t cluster_count(const OptionMap& options, const data::SampleSpec& spec);

// Writes the centres, whole or not at all. Returns false when the task has no code or no clusters are wanted.
// Blocks while it reads all test samples; throws Error(kUnavailable) when that takes longer than `most_time`.
// Leaves the network in training mode.
bool keep_clusters(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir,
                   std::chrono::duration<double> most_time);

}  // namespace distbelief::run
