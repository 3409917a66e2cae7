#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

// Parses JSON from files, other processes and the network. nlohmann's copy, comparison and dump are
// recursive, so deeply nested brackets would overflow the stack; these functions limit the depth.
namespace distbelief {

inline constexpr int kMostJsonDepth = 64;  // far above every file of ours
inline constexpr std::uint64_t kMostJsonFileBytes = 64 << 20;

// Offset of the first byte nested deeper than `most` arrays and objects. Text that is not JSON may have one
// too.
std::optional<std::size_t> nests_deeper(std::string_view text, int most);

// A discarded value when the text is not JSON or nests deeper than kMostJsonDepth.
nlohmann::json json_or_discarded(std::string_view text);
// Throws Error(kBadInput) with `name` and the byte offset.
nlohmann::json parse_json(std::string_view text, std::string_view name);
// The same as json_or_discarded() for a whole file; also discarded when the file is missing or too long.
nlohmann::json read_json(const std::filesystem::path& path);

// An integer in [least, most]. Throws Error(kBadInput) for fractions and overflow, which nlohmann would
// truncate.
std::int64_t whole_number(const nlohmann::json& value,
                          std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                          std::int64_t most = std::numeric_limits<std::int64_t>::max());

}  // namespace distbelief
