#pragma once

#include <cstdint>

namespace distbelief {

// A small thing to do with long vectors where they are kept: each holder of a slice of them does it on its
// slice, and only numbers go back. Vectors are called by number.
struct Operation {
  enum class Kind : int {
    kCopy = 1,     // target = source
    kScale = 2,    // target = factor * target
    kAxpy = 3,     // target = target + factor * source
    kDot = 4,      // gives the sum of target[i] * source[i]
    kCollect = 5,  // target = the sum of the gradients of a whole evaluation; gives its loss
  };
  Kind kind = Kind::kCopy;
  std::int32_t target = 0;
  std::int32_t source = 0;
  double factor = 0;
  bool operator==(const Operation&) const = default;
};

}  // namespace distbelief
