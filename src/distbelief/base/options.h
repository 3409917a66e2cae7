#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace distbelief {

// Free-form settings of a named model or data set, as in the job file: [model] hidden = [128].
using OptionValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;
using OptionMap = std::map<std::string, OptionValue>;

// One setting of a model or data set. The default also fixes the type; a double also accepts an integer.
struct OptionSpec {
  std::string name;
  OptionValue default_value;
  std::string help;
};

// Checks the given settings of `owner` ("model 'mlp'"), fills in defaults and widens integers. Throws
// Error(kBadInput) for an unknown name (with the nearest known one) or a wrong type.
OptionMap resolve_options(const std::string& owner, const std::vector<OptionSpec>& specs,
                          const OptionMap& given);

template <typename T>
const T& option(const OptionMap& options, const std::string& name) {
  return std::get<T>(options.at(name));
}

std::string to_string(const OptionValue& value);  // in job file syntax: 128, 0.5, "relu", [64, 32]
// "integer", "number", "string", "true or false" or "list of integers".
std::string_view type_name(const OptionValue& value);

// The candidate nearest to `word` by edit distance (letter case and swapped neighbours count little), the
// first of equals. Without a near one: the only candidate that starts with `word`, equals one of its words,
// or consists of their initials. Empty when there is none.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace distbelief
