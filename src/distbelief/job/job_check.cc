#include "distbelief/job/job_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "distbelief/job/constraints.h"
#include "distbelief/job/mode_terms.h"
#include "distbelief/job/schema.h"

namespace distbelief::job {
namespace {

using MaybeMessage = std::optional<std::string>;

template <typename T>
MaybeMessage check_number(const Key& key, T value) {
  if (!std::isfinite(static_cast<double>(value))) {
    return fmt::format("{} must be a finite number, found {}", key.full_name(), value);
  }
  if (!key.limit || key.limit->holds(static_cast<double>(value))) return std::nullopt;
  return fmt::format("{} must be {}, found {}", key.full_name(), key.limit->text, value);
}

MaybeMessage check_value(const Key&, bool) { return std::nullopt; }
MaybeMessage check_value(const Key& key, std::int64_t value) { return check_number(key, value); }
MaybeMessage check_value(const Key& key, double value) { return check_number(key, value); }

MaybeMessage check_value(const Key& key, std::uint64_t value) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  if (value <= static_cast<std::uint64_t>(kLargest)) return std::nullopt;
  return fmt::format("{} must be at most {}, the largest integer of TOML, found {}", key.full_name(),
                     kLargest, value);
}

MaybeMessage check_value(const Key& key, const std::string& value) {
  if (key.name == "name" && value.empty()) return fmt::format("{} must not be empty", key.full_name());
  const std::vector<std::string> choices = choices_of(key);
  if (choices.empty() || std::ranges::find(choices, value) != choices.end()) return std::nullopt;
  if (choices.size() == 1)  // a key for what is yet to come
    return fmt::format("{} must be {}, found '{}'; leave it out ({})", key.full_name(), choices[0], value,
                       key.help);
  const std::string near = nearest(value, choices);
  return fmt::format("{} must be one of {}; found '{}'{}", key.full_name(), fmt::join(choices, ", "), value,
                     near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
}

MaybeMessage check_value(const Key& key, const std::vector<std::string>& list) {
  for (auto item = list.begin(); item != list.end(); ++item) {
    if (auto message = check_value(key, *item)) return message;
    if (std::find(list.begin(), item, *item) != item) {
      return fmt::format("{} names '{}' twice; once is enough", key.full_name(), *item);
    }
  }
  return std::nullopt;
}

MaybeMessage check_value(const Key& key, const std::vector<std::int64_t>& list) {
  for (const std::int64_t item : list)
    if (auto message = check_number(key, item)) return message;
  return std::nullopt;
}

std::vector<Fault> values_out_of_range(const Config& config) {
  std::vector<Fault> faults;
  for (const Key& key : keys()) {
    const auto message =
        std::visit([&](const auto& field) { return check_value(key, field.read(config)); }, key.field);
    if (message) faults.push_back({key.full_name(), *message});
  }
  return faults;
}

// Values that no job file can hold, so that they could not be written back to one.
std::vector<Fault> unwritable_options(const Config& config) {
  std::vector<Fault> faults;
  for (const std::string& section : section_names()) {
    for (const auto& [name, value] : options_of(config, section)) {
      const std::string key = section + "." + name;
      if (find_key(section, name))
        faults.push_back({key, fmt::format("{} is a key of its own, not an option", key)});
      const auto* number = std::get_if<double>(&value);
      if (!number || std::isfinite(*number)) continue;
      faults.push_back({key, fmt::format("{} must be a finite number, found {}", key, *number)});
    }
  }
  return faults;
}

// A name that is nearer to a key of the section than to any option: "data.train_limt".
void refuse_misspelt_key(const std::string& section, const std::string& name,
                         const std::vector<OptionSpec>& specs) {
  std::vector<std::string> names = key_names(section);
  const std::size_t key_count = names.size();
  for (const OptionSpec& spec : specs) names.push_back(spec.name);
  const auto found = std::ranges::find(names, nearest(name, names));
  if (found >= names.begin() + static_cast<std::ptrdiff_t>(key_count)) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("unknown key '{0}.{1}'; did you mean '{0}.{2}'?", section, name, *found));
}

std::string with_place(const Job& job, const std::string& key, const std::string& message) {
  const auto place = job.places.find(key);
  return place == job.places.end() ? message : fmt::format("{}: {}", to_string(place->second), message);
}

}  // namespace

std::vector<Fault> find_faults(const Config& config) {
  std::vector<Fault> faults = values_out_of_range(config);
  std::ranges::move(unwritable_options(config), std::back_inserter(faults));
  if (faults.empty()) faults = faults_of_mode(config);
  return faults.empty() ? impossible_mixes(config) : faults;
}

void validate(const Config& config) { validate(Job{config, {}}); }

void validate(const Job& job) {
  std::vector<std::string> lines;
  for (const Fault& fault : find_faults(job.config))
    lines.push_back(with_place(job, fault.key, fault.message));
  if (!lines.empty()) throw Error(ErrorCode::kBadInput, fmt::format("{}", fmt::join(lines, "\n")));
}

void check_options(const Job& job, const std::string& section, const std::string& owner,
                   const std::vector<OptionSpec>& specs) {
  for (const auto& [name, value] : options_of(job.config, section)) {
    try {
      refuse_misspelt_key(section, name, specs);
      resolve_options(owner, specs, {{name, value}});
    } catch (const Error& error) {
      throw placed(job, Error(error.code(), error.message(), {.key = section + "." + name}));
    }
  }
}

}  // namespace distbelief::job
