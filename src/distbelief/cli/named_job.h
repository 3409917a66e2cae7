#pragma once

#include "distbelief/data/known_set.h"
#include "distbelief/job/job_file.h"
#include "distbelief/run/prepared_job.h"

// A job together with the model and the data set that it names.
namespace distbelief::cli {

// Checks what [model] and [data] name, and their free-form options against it, with file and line.
void check_named(const job::Job& job);

// For commands that name a model themselves: throws Error(kBadInput) when --set names another.
void require_named(const job::Job& job, const std::string& model, const std::string& flag);

// run::prepare_job(), with the data as it is known if it is; a setting that is refused is named with its
// place.
run::PreparedJob prepare_placed(const job::Job& job, const data::KnownSet* known = nullptr);

// Packs the cache of samples that the job asks for, if it is not there yet: before others open the data who
// would leave a part of it behind when the user ends them.
void pack_cache(const job::Job& job);

}  // namespace distbelief::cli
