#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

// One field of a table as text.
namespace distbelief::data {

inline std::string_view trimmed(std::string_view field) {
  const auto begin = field.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return field.substr(begin, field.find_last_not_of(" \t") - begin + 1);
}

// Parses the whole field as a number in the range of float32; the same in every locale.
inline bool parse_number(std::string_view field, double& value) {
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') field.remove_prefix(1);
  const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), value);
  constexpr double kLargest = 1e38;
  return failure == std::errc{} && end == field.data() + field.size() && std::abs(value) <= kLargest;
}

// The same with a configurable decimal mark. With a comma, a field that contains a point is not a number.
inline bool parse_number(std::string_view field, char decimal, double& value) {
  if (decimal == '.') return parse_number(field, value);
  constexpr std::size_t kMostDigits = 400;
  if (field.size() > kMostDigits || field.find('.') != std::string_view::npos) return false;
  std::string with_point(field);
  std::replace(with_point.begin(), with_point.end(), decimal, '.');
  return parse_number(with_point, value);
}

inline bool is_missing(const std::vector<std::string>& words, std::string_view field) {
  return field.empty() || std::find(words.begin(), words.end(), field) != words.end();
}

// The start of a long field, for messages.
inline std::string shown(std::string_view field) {
  constexpr std::size_t kMostShown = 40;
  return std::string(field.substr(0, kMostShown)) + (field.size() > kMostShown ? "..." : "");
}

}  // namespace distbelief::data
