#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/base/options.h"
#include "distbelief/job/job_check.h"

// Modes that a program brings itself, as far as a job file goes. No torch.
namespace distbelief::job {

// A mode that `parallel.sync = NAME` chooses. Its settings stand in a section of their own, [NAME].
struct ModeTerms {
  std::string name;
  std::vector<OptionSpec> options{};
  // The fault of a job that has chosen the mode, when every value is in range; may be empty.
  std::function<std::optional<Fault>(const Config& config)> constrain{};
};

// For main(), before anything is read: not thread-safe. Throws Error(kBadInput) when the name is taken.
void register_mode_terms(ModeTerms terms);

// The settings of the registered mode that the job has chosen, with defaults for those that it does not name.
// Throws Error(kBadInput) for one that the mode does not know.
OptionMap mode_options(const Config& config);

// Faults in the sections of registered modes. Pure.
std::vector<Fault> faults_of_mode(const Config& config);

}  // namespace distbelief::job
