#include "distbelief/server/service/budget.h"

#include <algorithm>
#include <utility>

namespace distbelief::server {

Budget::Budget(std::size_t limit, std::shared_ptr<Budget> whole) : limit_(limit), whole_(std::move(whole)) {}

Budget::~Budget() { close(); }

bool Budget::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes == 0) return is_open_;
  if (!is_open_ || taken_ > limit_ || bytes > limit_ - taken_) return false;
  if (whole_ && !whole_->take(bytes)) return false;
  taken_ += bytes;
  return true;
}

void Budget::add(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!is_open_) return;
  taken_ = saturating_add(taken_, bytes);
  if (whole_) whole_->add(bytes);
}

void Budget::give_back(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!is_open_) return;
  bytes = std::min(bytes, taken_);
  taken_ -= bytes;
  if (whole_) whole_->give_back(bytes);
}

void Budget::replace(std::size_t before, std::size_t after) {
  const std::lock_guard lock(mutex_);
  if (!is_open_) return;
  before = std::min(before, taken_);
  taken_ = saturating_add(taken_ - before, after);
  if (whole_) whole_->replace(before, after);
}

void Budget::close() {
  const std::lock_guard lock(mutex_);
  if (is_open_ && whole_) whole_->give_back(taken_);
  taken_ = 0;
  is_open_ = false;
}

std::size_t Budget::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

}  // namespace distbelief::server
