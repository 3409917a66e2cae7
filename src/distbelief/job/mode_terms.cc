#include "distbelief/job/mode_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/job/schema.h"

namespace distbelief::job {
namespace {

std::vector<ModeTerms>& registered() {
  static std::vector<ModeTerms> terms;
  return terms;
}

}  // namespace

void register_mode_terms(ModeTerms terms) {
  const std::vector<std::string>& names = section_names();
  const bool is_taken = std::ranges::find(names, terms.name) != names.end() || terms.name == "allreduce" ||
                        terms.name == "parameter_server" || find_mode_terms(terms.name) != nullptr;
  if (is_taken)
    throw Error(ErrorCode::kBadInput,
                fmt::format("a mode cannot be called '{}': the name is taken", terms.name));
  registered().push_back(std::move(terms));
}

const std::vector<ModeTerms>& mode_terms() { return registered(); }

const ModeTerms* find_mode_terms(const std::string& name) {
  const auto found = std::ranges::find(registered(), name, &ModeTerms::name);
  return found == registered().end() ? nullptr : &*found;
}

OptionMap mode_options(const Config& config) {
  const ModeTerms* const terms = find_mode_terms(config.parallel.sync);
  if (terms == nullptr) return {};
  return resolve_options(fmt::format("mode '{}'", terms->name), terms->options,
                         options_of(config, terms->name));
}

}  // namespace distbelief::job
