#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/base/array.h"

// Places every parameter in the arena and cuts the arena for exchange and update. Pure.
namespace distbelief::compute {

// Parameters begin on blocks of this many elements, norms are sums over blocks, and slices begin and end on
// block boundaries. A norm therefore has the same bits for any cut of the arena into buckets or slices.
inline constexpr std::size_t kBlock = 1024;

struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

struct Entry {
  std::string name;
  Shape shape;
  std::size_t offset = 0;  // in elements
  std::size_t count = 0;
};

// The part of one parameter inside one block.
struct Segment {
  int parameter = 0;
  Span span;
};

// A run of gradients that are exchanged together: whole parameters, in the order in which backward finishes
// them.
struct Bucket {
  Span span;  // begins and ends on block boundaries
  std::vector<int> parameters;
};

class Layout {
 public:
  struct Parameter {
    std::string name;
    Shape shape;
  };

  // Takes parameters in registration (forward) order. They are laid out in reverse, so that buckets fill in
  // the order of backward; a bucket closes once it has `bucket_bytes`. A run of consecutive parameters has
  // the same layout as in the whole network, shifted to the front.
  Layout(const std::vector<Parameter>& parameters, std::size_t bucket_bytes);

  std::size_t size() const { return size_; }                      // elements, padding included
  std::size_t parameter_count() const { return count_; }          // elements, padding excluded
  const std::vector<Entry>& entries() const { return entries_; }  // in registration order
  const std::vector<Bucket>& buckets() const { return buckets_; }
  int bucket_of(int parameter) const { return bucket_of_[std::size_t(parameter)]; }
  // All segments in arena order; block i has [first_segment(i), first_segment(i + 1)).
  const std::vector<Segment>& segments() const { return segments_; }
  std::size_t first_segment(std::size_t block) const { return first_segment_[block]; }

 private:
  void place(const std::vector<Parameter>& parameters, std::size_t bucket_bytes);
  void cut_segments();

  std::size_t size_ = 0;
  std::size_t count_ = 0;
  std::vector<Entry> entries_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;
  std::vector<Segment> segments_;
  std::vector<std::size_t> first_segment_;
};

// Slice `index` of `slices` of `whole`: on block boundaries, sizes differ by at most one block.
Span slice_of(Span whole, int slices, int index);

}  // namespace distbelief::compute
