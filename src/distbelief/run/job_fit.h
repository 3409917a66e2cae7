#pragma once

#include "distbelief/run/prepared_job.h"

// Checks whether the parts of a job fit together that need the open data and the model. Each function throws
// Error(kBadInput), with the key at fault and values that work.
namespace distbelief::run {

// Checks task, loss, layout, stopping rule and carried state against the data.
void require_fit(const Config& config, const data::DataSet& data);

// Checks that the network has enough blocks for the stages.
void require_stages(const Config& config, int blocks);

// Checks that L-BFGS gets a single, deterministic loss.
void require_batch_method(const PreparedJob& job);

}  // namespace distbelief::run
