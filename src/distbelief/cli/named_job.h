#pragma once

#include "distbelief/cli/job_file.h"
#include "distbelief/data/known_set.h"
#include "distbelief/train/job.h"

// A job together with the model and the data set that it names.
namespace distbelief::cli {

// Checks the free-form options of [model] and [data] against what they name, with file and line.
void check_named(const Job& job);

// train::prepare_job(), with the data as it is known if it is; an option that the model or data set refuses
// is named with its place.
train::PreparedJob prepare_placed(const Job& job, const data::KnownSet* known = nullptr);

}  // namespace distbelief::cli
