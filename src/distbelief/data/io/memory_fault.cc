#include "distbelief/data/io/memory_fault.h"

#include <fmt/format.h>

#include "distbelief/data/io/file_list.h"

namespace distbelief::data {

Error too_large_for_memory(const std::string& place) {
  std::string largest = place;
  std::uint64_t bytes = 0;
  for (const FoundFile& file : list_files(place)) {
    if (file.bytes <= bytes) continue;
    bytes = file.bytes;
    largest = file.path.string();
  }
  return Error(
      ErrorCode::kUnavailable,
      fmt::format("there is not memory enough for '{}', which has {} bytes; use less of it, or pack it "
                  "where there is more (distbelief data pack) and train on the slices",
                  largest, bytes));
}

}  // namespace distbelief::data
