#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>

namespace distbelief::server {

// Arithmetic that saturates instead of wrapping: a client may name any size.
inline std::size_t saturating_add(std::size_t a, std::size_t b) {
  std::size_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::size_t(-1) : sum;
}
inline std::size_t saturating_product(std::size_t a, std::size_t b) {
  std::size_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::size_t(-1) : product;
}

// Bytes that one job may use on a server, as a part of those of all jobs there. Thread safe.
class Budget {
 public:
  explicit Budget(std::size_t limit, std::shared_ptr<Budget> whole = nullptr);
  ~Budget();  // close()
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Returns false, and changes nothing, when there is no room for the bytes here or in the whole.
  bool take(std::size_t bytes);
  // Counts bytes that are there whether or not there is room.
  void add(std::size_t bytes);
  void give_back(std::size_t bytes);
  // Counts `after` instead of `before` in one step: no other thread sees both counted, or neither.
  void replace(std::size_t before, std::size_t after);
  // Gives everything back; later calls count nothing.
  void close();

  std::size_t limit() const { return limit_; }
  std::size_t taken() const;
  const std::shared_ptr<Budget>& whole() const { return whole_; }

 private:
  std::size_t limit_;
  std::shared_ptr<Budget> whole_;
  mutable std::mutex mutex_;  // guards taken_ and is_open_; locked before the whole's mutex
  std::size_t taken_ = 0;
  bool is_open_ = true;
};

inline std::size_t limit_of_all(const Budget& budget) {
  return budget.whole() ? budget.whole()->limit() : budget.limit();
}

// Holds bytes of a budget for its lifetime.
class Reservation {
 public:
  Reservation(Budget* budget, std::size_t bytes)
      : budget_(budget),
        bytes_(bytes),
        is_there_(budget == nullptr || budget->take(bytes)) {}
  ~Reservation() {
    if (budget_ != nullptr && is_there_) budget_->give_back(bytes_);
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  bool is_there() const { return is_there_; }
  // `bytes` of the reservation are used now, and count as `after` instead of `before`: they are not counted
  // twice.
  void use(std::size_t bytes, std::size_t before, std::size_t after) {
    if (budget_ == nullptr || !is_there_) return;
    bytes = std::min(bytes, bytes_);
    bytes_ -= bytes;
    budget_->replace(saturating_add(before, bytes), after);
  }

 private:
  Budget* budget_;
  std::size_t bytes_;
  bool is_there_;
};

}  // namespace distbelief::server
