#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "targets.h"

namespace distbelief::fuzz {

// Corrects the checksum of each header; otherwise the parser would reject most mutations at once.
inline void put_headers_right(std::vector<std::uint8_t>& tar) {
  constexpr std::size_t kTarHeader = 512, kSumAt = 148, kSumEnd = 156, kSizeAt = 124, kSizeDigits = 11;
  constexpr std::uint64_t kMostTarBytes = (std::uint64_t{1} << 33) - 1;  // the field holds no more
  for (std::size_t at = 0; at + kTarHeader <= tar.size() && tar[at] != 0;) {
    unsigned sum = 0;
    for (std::size_t i = 0; i < kTarHeader; ++i) sum += i >= kSumAt && i < kSumEnd ? ' ' : tar[at + i];
    const std::string octal = fmt::format("{:06o}", sum);
    std::ranges::copy(octal, tar.begin() + std::ptrdiff_t(at + kSumAt));
    tar[at + kSumAt + octal.size()] = 0;
    const std::string digits(text_of({tar.data() + at + kSizeAt, kSizeDigits}));
    const std::uint64_t bytes = std::strtoull(digits.c_str(), nullptr, 8) & kMostTarBytes;
    at += kTarHeader + (bytes + kTarHeader - 1) / kTarHeader * kTarHeader;
  }
}

}  // namespace distbelief::fuzz
