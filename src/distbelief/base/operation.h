#pragma once

#include <cstdint>

namespace distbelief {

// An operation on long vectors that runs where they are stored: each holder of a slice applies it to its
// slice and returns only numbers. Vectors are named by index.
struct Operation {
  enum class Kind : int {
    kCopy = 1,     // target = source
    kScale = 2,    // target = factor * target
    kAxpy = 3,     // target = target + factor * source
    kDot = 4,      // returns the sum of target[i] * source[i]
    kCollect = 5,  // target = the sum of all gradients of one evaluation; returns its loss
  };
  Kind kind = Kind::kCopy;
  std::int32_t target = 0;
  std::int32_t source = 0;
  double factor = 0;
  bool operator==(const Operation&) const = default;
};

}  // namespace distbelief
