#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace distbelief::server {

// The set of finished tickets. Tickets finish roughly in order, so the set is a number below which all are
// in, and a few ranges above it: at most one per unfinished ticket, however long that takes. Not thread safe.
class TicketSet {
 public:
  // Limit of ranges: they fit into a message's header, and it bounds what a client can make a server keep.
  static constexpr std::size_t kMostRanges = 1024;

  bool contains(std::int64_t ticket) const {
    if (ticket < below_) return true;
    const auto after = ranges_.upper_bound(ticket);
    return after != ranges_.begin() && ticket < std::prev(after)->second;
  }
  // Whether the ticket can be inserted: it is there, or there is room for another range.
  bool has_room_for(std::int64_t ticket) const {
    return ranges_.size() < kMostRanges || contains(ticket) || contains(ticket - 1) || contains(ticket + 1);
  }
  // Returns false when it was there.
  bool insert(std::int64_t ticket) {
    if (contains(ticket)) return false;
    insert(ticket, ticket + 1);
    return true;
  }
  // Inserts [begin, end).
  void insert(std::int64_t begin, std::int64_t end) {
    begin = std::max(begin, below_);
    if (begin >= end) return;
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second >= begin) --at;
    while (at != ranges_.end() && at->first <= end) {
      begin = std::min(begin, at->first);
      end = std::max(end, at->second);
      at = ranges_.erase(at);
    }
    ranges_[begin] = end;
    if (begin == below_) {
      below_ = end;
      ranges_.erase(begin);
    }
  }
  // Sets all below `below`, and these ranges: begin, end, begin, end ...
  void assign(std::int64_t below, const std::vector<std::int64_t>& ranges) {
    below_ = below;
    ranges_.clear();
    for (std::size_t i = 0; i + 1 < ranges.size(); i += 2) insert(ranges[i], ranges[i + 1]);
  }
  std::int64_t below() const { return below_; }
  std::vector<std::int64_t> ranges() const {
    std::vector<std::int64_t> all;
    for (const auto& [begin, end] : ranges_) all.insert(all.end(), {begin, end});
    return all;
  }
  std::int64_t size() const {
    std::int64_t count = below_;
    for (const auto& [begin, end] : ranges_) count += end - begin;
    return count;
  }

 private:
  std::int64_t below_ = 0;
  std::map<std::int64_t, std::int64_t> ranges_;  // by begin; not adjoining each other or below_
};

}  // namespace distbelief::server
