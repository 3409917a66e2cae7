#pragma once

#include <cstdint>

#include "distbelief/base/array.h"

// A part of a tensor: a tensor group's share of it, or the share that one checkpoint file has. Pure.
namespace distbelief {

// The elements [begin, begin + count) of the middle dimension of a tensor seen as [outer, whole, inner]. A
// slice of any dimension has this form, and so has the same slice of several stacked tensors (queries, keys
// and values).
struct Slice {
  std::int64_t outer = 1;
  std::int64_t whole = 1;
  std::int64_t begin = 0;
  std::int64_t count = 1;
  std::int64_t inner = 1;

  bool is_whole() const { return count == whole; }
  std::int64_t elements() const { return outer * count * inner; }
  friend bool operator==(const Slice&, const Slice&) = default;
};

// A run of consecutive elements, in the slice and in the whole tensor.
struct SliceRun {
  std::int64_t local = 0;
  std::int64_t whole = 0;
  std::int64_t count = 0;
};

// Calls visit(SliceRun) for every run, in order.
template <typename Visit>
void for_each_run(const Slice& slice, const Visit& visit) {
  if (slice.is_whole()) return visit(SliceRun{0, 0, slice.elements()});
  for (std::int64_t i = 0; i < slice.outer; ++i)
    visit(SliceRun{i * slice.count * slice.inner, (i * slice.whole + slice.begin) * slice.inner,
                   slice.count * slice.inner});
}

// Share of `part` out of `parts` in `whole`; shares are as even as possible.
struct SliceRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
SliceRange share_of(std::int64_t whole, int part, int parts);

// The slice of a tensor that a range of one dimension selects.
Slice slice_of(const Shape& shape, int dimension, SliceRange range);
// The slice that is the whole tensor.
Slice whole_of(const Shape& shape);

}  // namespace distbelief
