#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace distbelief::server {

// Which tickets have been dealt with. Tickets come roughly in order, so it is a number below which all are in
// and the few above it. Not thread safe.
class TicketSet {
 public:
  bool contains(std::int64_t ticket) const { return ticket < below_ || above_.contains(ticket); }
  // false: it was there.
  bool insert(std::int64_t ticket) {
    if (contains(ticket)) return false;
    above_.insert(ticket);
    while (!above_.empty() && *above_.begin() == below_) {
      above_.erase(above_.begin());
      ++below_;
    }
    return true;
  }
  // All below it, and these.
  void assign(std::int64_t below, const std::vector<std::int64_t>& above) {
    below_ = below;
    above_.clear();
    for (const std::int64_t ticket : above) insert(ticket);
  }
  std::int64_t below() const { return below_; }
  std::vector<std::int64_t> above() const { return {above_.begin(), above_.end()}; }
  std::int64_t size() const { return below_ + std::int64_t(above_.size()); }

 private:
  std::int64_t below_ = 0;
  std::set<std::int64_t> above_;
};

}  // namespace distbelief::server
