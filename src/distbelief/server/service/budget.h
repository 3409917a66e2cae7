#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>

namespace distbelief::server {

// Sums that stop at the largest number instead of beginning anew: sizes that a client names may be any.
inline std::size_t saturating_add(std::size_t a, std::size_t b) {
  std::size_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::size_t(-1) : sum;
}
inline std::size_t saturating_product(std::size_t a, std::size_t b) {
  std::size_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::size_t(-1) : product;
}

// Bytes that one job may take up on a server, as a part of those of all jobs there. Thread safe.
class Budget {
 public:
  explicit Budget(std::size_t limit, std::shared_ptr<Budget> whole = nullptr);
  ~Budget();  // close()
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // false, and nothing has changed: there is no room for so many more, here or in the whole.
  bool take(std::size_t bytes);
  // They are there, whether there is room or not.
  void add(std::size_t bytes);
  void give_back(std::size_t bytes);
  // Both at once: nobody finds both of them counted, or neither.
  void replace(std::size_t before, std::size_t after);
  // Gives all back; nothing counts any more.
  void close();

  std::size_t limit() const { return limit_; }
  std::size_t taken() const;
  const std::shared_ptr<Budget>& whole() const { return whole_; }

 private:
  std::size_t limit_;
  std::shared_ptr<Budget> whole_;
  mutable std::mutex mutex_;  // guards the two below; before that of the whole
  std::size_t taken_ = 0;
  bool is_open_ = true;
};

inline std::size_t limit_of_all(const Budget& budget) {
  return budget.whole() ? budget.whole()->limit() : budget.limit();
}

// Bytes of a budget for as long as it lives.
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
  // So many of them have been used, and what takes their place counts from now on: it is not in there twice.
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
