#include "distbelief/job/toml_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "distbelief/base/error.h"

namespace distbelief::job {
namespace {

[[noreturn]] void refuse(const std::string& key, std::string_view wanted, const std::string& found) {
  throw Error(ErrorCode::kBadInput, fmt::format("{} must be {}, found {}", key, wanted, found));
}

template <typename T>
T exactly(const std::string& key, std::string_view wanted, const toml::node& node) {
  const toml::value<T>* value = node.as<T>();
  if (!value) refuse(key, wanted, describe(node));
  return value->get();
}

template <typename T>
std::vector<T> list_of(const std::string& key, std::string_view wanted, const toml::node& node) {
  const toml::array* array = node.as_array();
  if (!array) refuse(key, wanted, describe(node));
  std::vector<T> list;
  for (const toml::node& element : *array) {
    const toml::value<T>* value = element.as<T>();
    if (!value) refuse(key, wanted, describe(element) + " in the list");
    list.push_back(value->get());
  }
  return list;
}

bool is_bare_key_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

}  // namespace

void read_value(const std::string& key, const toml::node& node, bool& out) {
  out = exactly<bool>(key, "true or false", node);
}

void read_value(const std::string& key, const toml::node& node, std::int64_t& out) {
  out = exactly<std::int64_t>(key, "an integer", node);
}

void read_value(const std::string& key, const toml::node& node, std::uint64_t& out) {
  const auto value = exactly<std::int64_t>(key, "an integer", node);
  if (value < 0) refuse(key, "0 or more", fmt::format("{}", value));
  out = static_cast<std::uint64_t>(value);
}

void read_value(const std::string& key, const toml::node& node, double& out) {
  if (const auto* integer = node.as_integer()) {
    out = static_cast<double>(integer->get());
    return;
  }
  const double value = exactly<double>(key, "a number", node);
  if (!std::isfinite(value)) refuse(key, "a finite number", fmt::format("{}", value));
  out = value;
}

void read_value(const std::string& key, const toml::node& node, std::string& out) {
  out = exactly<std::string>(key, "a string", node);
}

void read_value(const std::string& key, const toml::node& node, std::vector<std::string>& out) {
  out = list_of<std::string>(key, "a list of strings", node);
}

void read_value(const std::string& key, const toml::node& node, std::vector<std::int64_t>& out) {
  out = list_of<std::int64_t>(key, "a list of integers", node);
}

void read_value(const std::string& key, const toml::node& node, OptionValue& out) {
  switch (node.type()) {
    case toml::node_type::boolean: return read_value(key, node, out.emplace<bool>());
    case toml::node_type::integer: return read_value(key, node, out.emplace<std::int64_t>());
    case toml::node_type::floating_point: return read_value(key, node, out.emplace<double>());
    case toml::node_type::string: return read_value(key, node, out.emplace<std::string>());
    case toml::node_type::array: return read_value(key, node, out.emplace<std::vector<std::int64_t>>());
    default: refuse(key, "true or false, a number, a string or a list of integers", describe(node));
  }
}

std::string describe(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::boolean: return written(node.as_boolean()->get());
    case toml::node_type::integer: return "the integer " + written(node.as_integer()->get());
    case toml::node_type::floating_point: return "the number " + written(node.as_floating_point()->get());
    case toml::node_type::string: return "the string " + written(node.as_string()->get());
    case toml::node_type::array: return "a list";
    case toml::node_type::table: return "a table";
    default: return "a date or time";
  }
}

std::string written(bool value) { return value ? "true" : "false"; }

std::string written(std::int64_t value) { return fmt::format("{}", value); }

std::string written(std::uint64_t value) { return fmt::format("{}", value); }

std::string written(double value) { return distbelief::to_string(OptionValue(value)); }

std::string written(const std::string& value) {
  using toml::format_flags;
  constexpr format_flags kOneLine = toml::toml_formatter::default_flags &
                                    ~format_flags::allow_literal_strings &
                                    ~format_flags::allow_multi_line_strings;
  const toml::value<std::string> node{value};
  std::ostringstream text;
  text << toml::toml_formatter(node, kOneLine);
  return text.str();
}

std::string written(const std::vector<std::string>& value) {
  std::vector<std::string> items;
  items.reserve(value.size());
  for (const std::string& item : value) items.push_back(written(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string written(const std::vector<std::int64_t>& value) {
  return fmt::format("[{}]", fmt::join(value, ", "));
}

std::string written(const OptionValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return written(*text);
  return distbelief::to_string(value);
}

std::string written_key(const std::string& name) {
  const bool bare = !name.empty() && std::ranges::all_of(name, is_bare_key_letter);
  return bare ? name : written(name);
}

}  // namespace distbelief::job
