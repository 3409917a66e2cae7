#include "distbelief/base/slice.h"

namespace distbelief {

SliceRange share_of(std::int64_t whole, int part, int parts) {
  const std::int64_t begin = whole * part / parts;
  return {.begin = begin, .count = whole * (part + 1) / parts - begin};
}

Slice slice_of(const Shape& shape, int dimension, SliceRange range) {
  Slice slice{.whole = shape[std::size_t(dimension)], .begin = range.begin, .count = range.count};
  for (int i = 0; i < int(shape.size()); ++i) {
    if (i < dimension) slice.outer *= shape[std::size_t(i)];
    if (i > dimension) slice.inner *= shape[std::size_t(i)];
  }
  return slice;
}

Slice whole_of(const Shape& shape) {
  const std::int64_t count = element_count(shape);
  return {.whole = count, .count = count};
}

}  // namespace distbelief
