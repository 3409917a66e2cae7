#pragma once

#include <filesystem>

#include "distbelief/job/job_file.h"

// The parts of an fbnet_search run before its start and after its end. For other models these functions do
// nothing.
namespace distbelief::cli {

// Where the job wants it (model.costs), measures the time of each candidate on this machine and writes it
// into the job, so that a repeated or resumed run uses the same numbers. Opens the data; blocks for about a
// second.
void measure_if_searching(job::Job& job);
// Throws when latencies are to be measured: under mpirun or srun every process would measure others.
void refuse_search_without_latencies(const Config& config);

// Prints the architecture that the search found, and writes found.toml, a job that trains it.
void keep_found(const std::filesystem::path& run_dir, const Config& config);

}  // namespace distbelief::cli
