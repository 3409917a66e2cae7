#include "distbelief/job/mode_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/job/schema.h"

namespace distbelief::job {
namespace {

std::vector<ModeTerms>& registered_modes() {
  static std::vector<ModeTerms> terms;
  return terms;
}

const ModeTerms* chosen_terms(const Config& config) {
  const auto found = std::ranges::find(registered_modes(), config.parallel.sync, &ModeTerms::name);
  return found == registered_modes().end() ? nullptr : &*found;
}

}  // namespace

void register_mode_terms(ModeTerms terms) {
  add_mode_section(terms.name);
  registered_modes().push_back(std::move(terms));
}

OptionMap mode_options(const Config& config) {
  const ModeTerms* const terms = chosen_terms(config);
  if (terms == nullptr) return {};
  return resolve_options(fmt::format("mode '{}'", terms->name), terms->options,
                         options_of(config, terms->name));
}

std::vector<Fault> faults_of_mode(const Config& config) {
  for (const auto& [section, options] : config.own)
    if (section != config.parallel.sync && !options.empty())
      return {
          {section + "." + options.begin()->first,
           fmt::format("[{}] is for parallel.sync = \"{}\", found \"{}\"; set that, or leave the section out",
                       section, section, config.parallel.sync)}};
  const ModeTerms* const terms = chosen_terms(config);
  if (terms == nullptr) return {};
  try {
    mode_options(config);
  } catch (const Error& error) {
    return {{terms->name, error.message()}};
  }
  if (!terms->constrain) return {};
  const std::optional<Fault> fault = terms->constrain(config);
  return fault ? std::vector<Fault>{*fault} : std::vector<Fault>{};
}

}  // namespace distbelief::job
