#pragma once

#include <cstdint>

#include "distbelief/base/array.h"

// A part of a tensor: what a worker of a tensor group holds of it, what a file of a checkpoint has of it.
// Pure.
namespace distbelief {

// Of a tensor seen as [outer, whole, inner], the elements [begin, begin + count) of the middle. So a slice of
// any dimension has one form, and so has a tensor that is several stacked ones (queries, keys and values).
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

// The share of `whole` that part `part` of `parts` has: as even as can be.
struct SliceRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
SliceRange share_of(std::int64_t whole, int part, int parts);

// A part's slice of one dimension of a tensor.
Slice slice_of(const Shape& shape, int dimension, SliceRange range);
// All of it.
Slice whole_of(const Shape& shape);

}  // namespace distbelief
