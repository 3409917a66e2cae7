#include "distbelief/base/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <sstream>
#include <type_traits>

#include "distbelief/base/error.h"

namespace distbelief {
namespace {

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours cost one each.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  const std::size_t columns = b.size() + 1;
  std::vector<std::size_t> before_last(columns), last(columns), row(columns);
  for (std::size_t j = 0; j < columns; ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j < columns; ++j) {
      const std::size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row.back();
}

// Keeps doubles apart from integers: writes 4.0, not 4.
std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::vector<std::string> names_of(const std::vector<OptionSpec>& specs) {
  std::vector<std::string> names;
  for (const OptionSpec& spec : specs) names.push_back(spec.name);
  return names;
}

[[noreturn]] void unknown_option(const std::string& owner, const std::vector<OptionSpec>& specs,
                                 const std::string& name) {
  const std::vector<std::string> names = names_of(specs);
  std::string advice = "it has none";
  if (const std::string near = nearest(name, names); !near.empty()) {
    advice = fmt::format("did you mean '{}'?", near);
  } else if (!names.empty()) {
    advice = fmt::format("it has {}", fmt::join(names, ", "));
  }
  throw Error(ErrorCode::kBadInput, fmt::format("{} has no option '{}'; {}", owner, name, advice));
}

OptionValue converted(const std::string& owner, const OptionSpec& spec, const OptionValue& given) {
  if (given.index() == spec.default_value.index()) return given;
  const auto* integer = std::get_if<std::int64_t>(&given);
  if (integer && std::holds_alternative<double>(spec.default_value)) return static_cast<double>(*integer);
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: option '{}' must be of type {}, such as {}; found {}, of type {}", owner,
                          spec.name, type_name(spec.default_value), to_string(spec.default_value),
                          to_string(given), type_name(given)));
}

// The one candidate that starts with the word; empty when there is none or several, or the word is too short.
std::string only_completion(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kShortest = 3;
  std::string found;
  for (const std::string& candidate : candidates) {
    if (word.size() < kShortest || !lower_case(candidate).starts_with(word)) continue;
    if (!found.empty()) return "";
    found = candidate;
  }
  return found;
}

// The one candidate that is part of the word ("num_epochs": epochs) or consists of the initials of its parts
// ("learning_rate": lr); empty when there is none or several.
std::string only_part(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kShortest = 3;
  std::vector<std::string> parts;
  std::string initials, found;
  std::istringstream letters(word);
  for (std::string part; std::getline(letters, part, '_');) {
    initials += part.substr(0, 1);
    parts.push_back(part);
  }
  if (parts.size() < 2) return "";
  for (const std::string& candidate : candidates) {
    const bool is_word = candidate.size() >= kShortest && std::ranges::find(parts, candidate) != parts.end();
    if (!is_word && candidate != initials) continue;
    if (!found.empty()) return "";
    found = candidate;
  }
  return found;
}

}  // namespace

OptionMap resolve_options(const std::string& owner, const std::vector<OptionSpec>& specs,
                          const OptionMap& given) {
  OptionMap resolved;
  for (const OptionSpec& spec : specs) resolved.emplace(spec.name, spec.default_value);
  for (const auto& [name, value] : given) {
    const std::string& wanted = name;
    const auto spec =
        std::find_if(specs.begin(), specs.end(), [&](const auto& s) { return s.name == wanted; });
    if (spec == specs.end()) unknown_option(owner, specs, name);
    resolved[name] = converted(owner, *spec, value);
  }
  return resolved;
}

std::string to_string(const OptionValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, double>)
          return number_text(v);
        else if constexpr (std::is_same_v<T, std::string>)
          return fmt::format("{:?}", v);
        else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
          return fmt::format("[{}]", fmt::join(v, ", "));
        else
          return fmt::format("{}", v);
      },
      value);
}

std::string_view type_name(const OptionValue& value) {
  static constexpr std::string_view kNames[] = {"true or false", "integer", "number", "string",
                                                "list of integers"};
  static_assert(std::size(kNames) == std::variant_size_v<OptionValue>);
  return kNames[value.index()];
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string wanted = lower_case(word);
  std::string best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    const std::size_t distance = edit_distance(wanted, lower_case(candidate));
    // Near: the distance is at most a third of the letters, but at least one edit is allowed from two letters
    // on.
    const bool near = distance < longer && distance <= std::max<std::size_t>(1, longer / 3);
    const bool is_longer_form =
        lower_case(candidate).starts_with(wanted) && !lower_case(best).starts_with(wanted);
    if (near && (best.empty() || distance < best_distance || (distance == best_distance && is_longer_form))) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (best.empty()) best = only_completion(wanted, candidates);
  return best.empty() ? only_part(wanted, candidates) : best;
}

}  // namespace distbelief
