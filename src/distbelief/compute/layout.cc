#include "distbelief/compute/layout.h"

#include <algorithm>

namespace distbelief::compute {
namespace {

std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

Layout::Layout(const std::vector<Parameter>& parameters, std::size_t bucket_bytes) {
  place(parameters, bucket_bytes);
  cut_segments();
}

void Layout::place(const std::vector<Parameter>& parameters, std::size_t bucket_bytes) {
  entries_.resize(parameters.size());
  bucket_of_.resize(parameters.size());
  Bucket open;
  const auto close = [&] {
    open.span.end = size_;
    buckets_.push_back(std::move(open));
    open = Bucket{{size_, size_}, {}};
  };
  for (std::size_t i = parameters.size(); i-- > 0;) {
    Entry& entry = entries_[i];
    entry = {parameters[i].name, parameters[i].shape, size_, std::size_t(element_count(parameters[i].shape))};
    bucket_of_[i] = int(buckets_.size());
    open.parameters.push_back(int(i));
    size_ = round_up(size_ + entry.count, kBlock);
    count_ += entry.count;
    if ((size_ - open.span.begin) * sizeof(float) >= bucket_bytes) close();
  }
  if (!open.parameters.empty()) close();
}

void Layout::cut_segments() {
  const std::size_t blocks = size_ / kBlock;
  first_segment_.assign(blocks + 1, 0);
  std::size_t filled = 0;  // blocks whose first segment is known
  for (std::size_t i = entries_.size(); i-- > 0;) {
    const Entry& entry = entries_[i];
    const std::size_t end = entry.offset + entry.count;
    for (std::size_t at = entry.offset; at < end;) {
      const std::size_t block = at / kBlock;
      while (filled <= block) first_segment_[filled++] = segments_.size();
      const std::size_t stop = std::min(end, (block + 1) * kBlock);
      segments_.push_back({int(i), {at, stop}});
      at = stop;
    }
  }
  while (filled <= blocks) first_segment_[filled++] = segments_.size();
}

Span slice_of(Span whole, int slices, int index) {
  const std::size_t blocks = (whole.size() + kBlock - 1) / kBlock;
  const auto at = [&](int i) {
    return std::min(whole.end, whole.begin + blocks * std::size_t(i) / std::size_t(slices) * kBlock);
  };
  return {at(index), at(index + 1)};
}

}  // namespace distbelief::compute
