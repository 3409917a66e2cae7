#pragma once

#include <string>
#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/job/job_file.h"

namespace distbelief::job {

struct Fault {
  std::string key;  // the setting to change: "parallel.overlap"
  std::string message;
};

// Values out of range and mixes that cannot work, as far as they need neither model nor data. Pure.
// Mixes are looked at only when every value is in range.
std::vector<Fault> find_faults(const Config& config);

// Throws Error(kBadInput) with a line for each fault; for a Job with the place of each.
void validate(const Config& config);
void validate(const Job& job);

// Checks the free-form options of `section` ("model" or "data") against what `owner` ("model 'mlp'")
// understands; throws Error(kBadInput) with the place of the first that it does not.
void check_options(const Job& job, const std::string& section, const std::string& owner,
                   const std::vector<OptionSpec>& specs);

}  // namespace distbelief::job
