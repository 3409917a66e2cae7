#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/base/options.h"
#include "distbelief/job/job_check.h"

// What a job file may say about modes that a program brings itself. No torch.
namespace distbelief::job {

// A mode that `parallel.sync = NAME` chooses. Its settings stand in a section of their own, [NAME].
struct ModeTerms {
  std::string name;
  std::vector<OptionSpec> options{};
  // What is wrong with a job that has chosen the mode, when every value is in range; may be empty.
  std::function<std::optional<Fault>(const Config& config)> constrain{};
};

// For main(), before anything is read: not thread-safe. Throws Error(kBadInput) when the name is taken.
void register_mode_terms(ModeTerms terms);

// Those that were registered.
const std::vector<ModeTerms>& mode_terms();
const ModeTerms* find_mode_terms(const std::string& name);

// The settings of the job's own mode, with defaults for what it does not say.
OptionMap mode_options(const Config& config);

}  // namespace distbelief::job
