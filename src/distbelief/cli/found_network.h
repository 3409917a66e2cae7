#pragma once

#include <filesystem>

#include "distbelief/job/job_file.h"

// What a run of fbnet_search needs before it begins and leaves when it has ended. Other models: nothing
// happens.
namespace distbelief::cli {

// Measures how long each candidate takes on this machine, unless the job says it, and puts it into the job:
// what is repeated or resumed from the run folder counts with the same numbers. Opens the data; blocks for
// about a second.
void measure_if_searching(job::Job& job);
// Under mpirun or srun every process would find other numbers.
void refuse_search_without_latencies(const Config& config);

// Prints the architecture that was found, and writes found.toml, a job that trains it.
void keep_found(const std::filesystem::path& run_dir, const Config& config);

}  // namespace distbelief::cli
