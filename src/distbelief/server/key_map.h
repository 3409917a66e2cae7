#pragma once

#include <cstdint>
#include <vector>

// Which server has which slices of a job. Pure.
namespace distbelief::server {

// The slices of one server: neighbours, as many as each other server has or one more.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool contains(std::int64_t slice) const { return slice >= begin && slice < end; }
  bool operator==(const KeyRange&) const = default;
};

inline std::vector<KeyRange> spread_slices(std::int64_t slices, int servers) {
  std::vector<KeyRange> ranges;
  std::int64_t from = 0;
  for (int server = 0; server < servers; ++server) {
    const std::int64_t count = slices / servers + (server < slices % servers ? 1 : 0);
    ranges.push_back({.begin = from, .end = from + count});
    from += count;
  }
  return ranges;
}

}  // namespace distbelief::server
