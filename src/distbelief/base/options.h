#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace distbelief {

// Free-form settings of a named model or data set, as written in the job file: [model] hidden = [128].
using OptionValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;
using OptionMap = std::map<std::string, OptionValue>;

// One setting that a model or data set understands. The default also fixes the type; an integer is
// accepted where a double is the default.
struct OptionSpec {
  std::string name;
  OptionValue default_value;
  std::string help;
};

// Given settings checked against what `owner` ("model 'mlp'") understands: defaults filled in, integers
// widened. Throws Error(kBadInput) for an unknown name (with the nearest one that exists) or a wrong type.
OptionMap resolve_options(const std::string& owner, const std::vector<OptionSpec>& specs,
                          const OptionMap& given);

template <typename T>
const T& option(const OptionMap& options, const std::string& name) {
  return std::get<T>(options.at(name));
}

std::string to_string(const OptionValue& value);  // as a job file writes it: 128, 0.5, "relu", [64, 32]
std::string_view type_name(
    const OptionValue& value);  // "integer", "number", "string", "true or false", "list of integers"

// The candidate nearest to `word` by edit distance (letter case and swapped neighbours count little), the
// first of equals; else the only one that it begins, that is one of its words, or that is made of their first
// letters; or an empty string when none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace distbelief
