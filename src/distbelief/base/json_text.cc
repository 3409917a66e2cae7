#include "distbelief/base/json_text.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "distbelief/base/error.h"

namespace distbelief {

// Counts brackets as the parser does, up to the first byte that is not JSON, where the parser stops.
std::optional<std::size_t> nests_deeper(std::string_view text, int most) {
  std::int64_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    if ((c == '[' || c == '{') && ++depth > most) return i;
    if (c == ']' || c == '}') --depth;
  }
  return std::nullopt;
}

nlohmann::json json_or_discarded(std::string_view text) {
  if (nests_deeper(text, kMostJsonDepth)) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(text, nullptr, false);
}

nlohmann::json parse_json(std::string_view text, std::string_view name) {
  if (const auto at = nests_deeper(text, kMostJsonDepth))
    throw Error(ErrorCode::kBadInput, fmt::format("{}, byte {}: nested deeper than {} arrays and objects",
                                                  name, *at, kMostJsonDepth));
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t at = error.byte > 0 ? error.byte - 1 : 0;  // nlohmann counts from 1
    throw Error(ErrorCode::kBadInput, fmt::format("{}, byte {}: no JSON", name, at));
  } catch (const nlohmann::json::exception& error) {  // a number beyond double
    throw Error(ErrorCode::kBadInput, fmt::format("{}: no JSON: {}", name, error.what()));
  }
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::error_code none;
  const std::uint64_t bytes = std::filesystem::file_size(path, none);
  std::string text(!none && bytes <= kMostJsonFileBytes ? bytes : 0, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), std::streamsize(text.size()));
  text.resize(std::size_t(file.gcount()));
  return json_or_discarded(text);
}

std::int64_t whole_number(const nlohmann::json& value, std::int64_t least, std::int64_t most) {
  const bool too_large = value.is_number_unsigned() && std::cmp_greater(value.get<std::uint64_t>(), most);
  if (value.is_number_integer() && !too_large)
    if (const auto found = value.get<std::int64_t>(); found >= least && found <= most) return found;
  constexpr std::size_t kMostShown = 40;
  const std::string found = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  throw Error(ErrorCode::kBadInput, fmt::format("wanted a whole number from {} to {}, found {}", least, most,
                                                found.substr(0, kMostShown)));
}

}  // namespace distbelief
