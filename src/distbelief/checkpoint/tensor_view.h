#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distbelief/base/array.h"
#include "distbelief/base/slice.h"

namespace distbelief::checkpoint {

struct ElementRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Which elements of a larger tensor a piece has: of those of a slice of it, some from `first` on.
struct PieceOf {
  std::string tensor;
  Shape shape;
  Slice slice;
  std::int64_t first = 0;
};

// How elements lie in memory: as their type says, or in 16 bits, which read_elements() widens to float32.
enum class Stored { kAsTyped, kFloat16, kBfloat16 };

// A named tensor in memory that somebody else owns.
struct TensorView {
  std::string name;
  ElementType type = ElementType::kFloat32;
  Shape shape;
  const std::byte* data = nullptr;  // null: its elements are in `pieces`
  // Called by whoever reads all tensors one after another, when it is done with this one; may be null.
  void (*done)(const TensorView& view) = nullptr;
  std::shared_ptr<const PieceOf> piece = {};  // null: it is a tensor of its own
  std::shared_ptr<const std::vector<TensorView>> pieces =
      {};  // which together are all of it, each element once
  Stored stored = Stored::kAsTyped;

  std::size_t byte_count() const {
    return element_size(type) * static_cast<std::size_t>(element_count(shape));
  }
  std::size_t stored_bytes() const { return stored == Stored::kAsTyped ? byte_count() : byte_count() / 2; }
};

// Copies elements of a tensor, wherever they lie.
void read_elements(const TensorView& tensor, ElementRange range, std::byte* into);
// Copies some of the elements of a slice of a tensor.
void read_slice(const TensorView& tensor, const Slice& slice, ElementRange range, std::byte* into);
// All of a tensor: where it lies, or put together in `buffer`.
const std::byte* bytes_of(const TensorView& tensor, std::vector<std::byte>& buffer);

}  // namespace distbelief::checkpoint
