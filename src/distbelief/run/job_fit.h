#pragma once

#include "distbelief/run/prepared_job.h"

// Whether the parts of a job go together: what shows only when its data is open and its model known. Each
// throws Error(kBadInput), with the key that is at fault and what would do.
namespace distbelief::run {

// Task, loss, layout, stopping rule and carried state, with the data.
void require_fit(const Config& config, const data::DataSet& data);

// As many stages as the network has places to cut it.
void require_stages(const Config& config, int blocks);

// L-BFGS: one loss, the same whenever it is asked for.
void require_batch_method(const PreparedJob& job);

}  // namespace distbelief::run
