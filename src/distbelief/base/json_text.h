#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

// JSON that a file, another process or the network gave. nlohmann's values are copied, compared and dumped by
// functions that call themselves: brackets alone, enough of them, would end the process.
namespace distbelief {

inline constexpr int kMostJsonDepth = 64;  // nothing of ours comes near it
inline constexpr std::uint64_t kMostJsonFileBytes = 64 << 20;

// The byte at which it nests deeper than `most` arrays and objects. Text that is no JSON may have one too.
std::optional<std::size_t> nests_deeper(std::string_view text, int most);

// A discarded value when it is no JSON or nests deeper than kMostJsonDepth.
nlohmann::json json_or_discarded(std::string_view text);
// Throws Error(kBadInput) with `name` and the byte.
nlohmann::json parse_json(std::string_view text, std::string_view name);
// Of a whole file, as json_or_discarded(): one that is not there, or too long, has none either.
nlohmann::json read_json(const std::filesystem::path& path);

// A whole number in [least, most]; nlohmann would cut off what it has behind the point, or too many bits.
// Throws Error(kBadInput).
std::int64_t whole_number(const nlohmann::json& value,
                          std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                          std::int64_t most = std::numeric_limits<std::int64_t>::max());

}  // namespace distbelief
