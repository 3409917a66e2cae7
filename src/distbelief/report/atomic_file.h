#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace distbelief::report {

// Writes the pieces, one after the other, as one file: readers see the old file or the whole new one.
// Survives a killed process, not a power cut; what must is written by checkpoint/. Throws
// Error(kUnavailable) with file and reason; then the old file is still there and nothing else.
void write_atomically(const std::filesystem::path& path, std::span<const std::string_view> pieces);

}  // namespace distbelief::report
