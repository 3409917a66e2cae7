#include "distbelief/job/byte_size.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "distbelief/base/error.h"

namespace distbelief::job {

std::size_t parse_bytes(const std::string& text, const std::string& flag) {
  constexpr double kMostBytes = double(std::size_t{1} << 60);
  constexpr std::string_view kUnits = "KMGT", kSmallUnits = "kmgt";
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  for (const std::string_view suffix : {"iB", "B"})
    if (unit.size() > suffix.size() - (suffix == "B") && unit.ends_with(suffix))
      unit.resize(unit.size() - suffix.size());
  const char letter = unit.empty() ? '\0' : unit[0];
  const std::size_t power = std::min(kUnits.find(letter), kSmallUnits.find(letter));
  const bool known = unit.empty() || (unit.size() == 1 && power != std::string_view::npos);
  const double bytes =
      unit.empty() || !known ? number : number * double(std::size_t{1} << (10 * (power + 1)));
  if (error != std::errc() || !known || !(bytes > 0) || !(bytes <= kMostBytes))
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} wants a size like 1.2G or 800M, found '{}'", flag, text));
  return std::size_t(bytes);
}

}  // namespace distbelief::job
