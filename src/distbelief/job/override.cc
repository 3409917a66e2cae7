#include "distbelief/job/override.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/job/schema.h"

namespace distbelief::job {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool is_quoted(const std::string& text) { return text.starts_with('"') || text.starts_with('\''); }

bool is_bracketed(const std::string& text) {
  return text.size() >= 2 && text.front() == '[' && text.back() == ']';
}

std::optional<toml::table> as_toml(const std::string& text) {
  try {
    toml::table holder = toml::parse("value = " + text);
    // More than one key: a line break in the value smuggled in another line.
    if (holder.size() == 1) return holder;
  } catch (const toml::parse_error&) {
    // A bare word, then.
  }
  return std::nullopt;
}

std::vector<std::string> list_items(const std::string& text) {
  std::vector<std::string> items;
  const std::string list = text.substr(1, text.size() - 2) + ",";
  std::size_t begin = 0;
  for (std::size_t comma; (comma = list.find(',', begin)) != std::string::npos; begin = comma + 1)
    items.push_back(trimmed(list.substr(begin, comma - begin)));
  return items;
}

toml::table value_of(const std::string& text) {
  if (auto holder = as_toml(text)) return *std::move(holder);
  if (!is_bracketed(text)) return toml::table{{"value", text}};
  toml::array list;
  for (const std::string& item : list_items(text)) {
    const std::optional<toml::table> element = as_toml(item);
    if (element)
      element->get("value")->visit([&](const auto& node) { list.push_back(node); });
    else if (is_bracketed(item))
      list.push_back(toml::array{});  // no key takes lists in lists: what is in this one does not matter
    else
      list.push_back(item);
  }
  return toml::table{{"value", std::move(list)}};
}

[[noreturn]] void malformed(const std::string& assignment, std::string_view trouble) {
  throw Error(ErrorCode::kBadInput, fmt::format("--set {}: {}; write --set section.key=value, for example "
                                                "--set train.lr=0.1",
                                                assignment, trouble));
}

}  // namespace

Override parse_override(const std::string& assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string::npos) malformed(assignment, "there is no '='");
  const std::string full_name = trimmed(assignment.substr(0, equals));
  const std::string text = trimmed(assignment.substr(equals + 1));
  const auto dot = full_name.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == full_name.size()) {
    const std::string near = suggest_key("", full_name);
    if (near.empty()) malformed(assignment, fmt::format("'{}' is not section.key", full_name));
    throw Error(ErrorCode::kBadInput, fmt::format("--set {}: '{}' has no section; did you mean '{}'?",
                                                  assignment, full_name, near));
  }
  Override change{full_name.substr(0, dot), full_name.substr(dot + 1), {}};
  const Key* key = find_key(change.section, change.name);
  const bool wants_string = key && std::holds_alternative<Field<std::string>>(key->field);
  if (text.empty() && !wants_string) malformed(assignment, "there is no value after '='");
  change.holder = wants_string && !is_quoted(text) ? toml::table{{"value", text}} : value_of(text);
  return change;
}

}  // namespace distbelief::job
