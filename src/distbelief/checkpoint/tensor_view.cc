#include "distbelief/checkpoint/tensor_view.h"

#include <algorithm>
#include <cstring>

#include "distbelief/base/half_float.h"

namespace distbelief::checkpoint {
namespace {

// Copies the elements of [begin, end) of the tensor that the piece has.
void read_from_piece(const TensorView& view, std::int64_t begin, std::int64_t end, std::byte* into) {
  const Slice& slice = view.piece->slice;
  const std::int64_t period = slice.whole * slice.inner, run = slice.count * slice.inner;
  const std::int64_t first = view.piece->first, last = first + element_count(view.shape);
  const std::size_t bytes = element_size(view.type);
  for (std::int64_t i = begin / period; i * period < end; ++i) {
    const std::int64_t run_begin = i * period + slice.begin * slice.inner;  // in the tensor
    const std::int64_t to_slice = i * run - run_begin;  // from an index in the tensor to one in the slice
    const std::int64_t from = std::max({begin, run_begin, first - to_slice});
    const std::int64_t to = std::min({end, run_begin + run, last - to_slice});
    if (from < to)
      std::memcpy(into + bytes * std::size_t(from - begin),
                  view.data + bytes * std::size_t(from + to_slice - first), bytes * std::size_t(to - from));
  }
}

void widen(const TensorView& tensor, ElementRange range, std::byte* into) {
  const std::byte* from = tensor.data + sizeof(std::uint16_t) * std::size_t(range.first);
  for (std::int64_t i = 0; i < range.count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof bits);
    const float value =
        tensor.stored == Stored::kFloat16 ? float_from_float16(bits) : float_from_bfloat16(bits);
    std::memcpy(into, &value, sizeof value);
    from += sizeof bits;
    into += sizeof value;
  }
}

}  // namespace

void read_elements(const TensorView& tensor, ElementRange range, std::byte* into) {
  const std::size_t bytes = element_size(tensor.type);
  if (tensor.pieces)
    for (const TensorView& piece : *tensor.pieces)
      read_from_piece(piece, range.first, range.first + range.count, into);
  else if (tensor.stored != Stored::kAsTyped)
    widen(tensor, range, into);
  else if (range.count > 0)
    std::memcpy(into, tensor.data + bytes * std::size_t(range.first), bytes * std::size_t(range.count));
}

void read_slice(const TensorView& tensor, const Slice& slice, ElementRange range, std::byte* into) {
  for_each_run(slice, [&](const SliceRun& run) {
    const std::int64_t from = std::max(run.local, range.first);
    const std::int64_t to = std::min(run.local + run.count, range.first + range.count);
    if (from < to)
      read_elements(tensor, {run.whole + from - run.local, to - from},
                    into + element_size(tensor.type) * std::size_t(from - range.first));
  });
}

const std::byte* bytes_of(const TensorView& tensor, std::vector<std::byte>& buffer) {
  if (!tensor.pieces && tensor.stored == Stored::kAsTyped) return tensor.data;
  buffer.resize(tensor.byte_count());
  read_elements(tensor, {0, element_count(tensor.shape)}, buffer.data());
  return buffer.data();
}

}  // namespace distbelief::checkpoint
