#pragma once

#include <algorithm>
#include <vector>

namespace distbelief {

// The middle value; of an even number of values the upper of the two middle ones.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace distbelief
