#pragma once

#include "distbelief/data/known_set.h"
#include "distbelief/job/job_file.h"
#include "distbelief/run/prepared_job.h"

// A job together with the model and the data set that it names.
namespace distbelief::cli {

// Checks the names in [model] and [data], and their free-form options, and reports file and line.
void check_named(const job::Job& job);

// For commands that set the model themselves: throws Error(kBadInput) when --set names another.
void require_named(const job::Job& job, const std::string& model, const std::string& flag);

// As run::prepare_job(), with the data as the manifest knows it, if given; an error names the setting's
// place.
run::PreparedJob prepare_placed(const job::Job& job, const data::KnownSet* known = nullptr);

// Packs the cache of samples if the job asks for one and it does not exist yet. Done before other processes
// open the data, because they would leave a partial cache when interrupted.
void pack_cache(const job::Job& job);

}  // namespace distbelief::cli
