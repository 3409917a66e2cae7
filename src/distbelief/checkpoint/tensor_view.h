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

// The elements of a larger tensor that a piece has: consecutive elements of `slice`, starting at `first`.
struct PieceOf {
  std::string tensor;
  Shape shape;
  Slice slice;
  std::int64_t first = 0;
};

// How elements are stored: as `type` says, or in 16 bits that read_elements() widens to float32.
enum class Stored { kAsTyped, kFloat16, kBfloat16 };

// A named tensor in borrowed memory.
struct TensorView {
  std::string name;
  ElementType type = ElementType::kFloat32;
  Shape shape;
  const std::byte* data = nullptr;  // null: the elements are in `pieces`
  // A reader that visits all tensors in turn calls this after each; may be null.
  void (*done)(const TensorView& view) = nullptr;
  std::shared_ptr<const PieceOf> piece = {};                   // null: a tensor of its own
  std::shared_ptr<const std::vector<TensorView>> pieces = {};  // together the whole tensor, each element once
  Stored stored = Stored::kAsTyped;

  std::size_t byte_count() const {
    return element_size(type) * static_cast<std::size_t>(element_count(shape));
  }
  std::size_t stored_bytes() const { return stored == Stored::kAsTyped ? byte_count() : byte_count() / 2; }
};

// Copies elements of a tensor, from its memory or its pieces.
void read_elements(const TensorView& tensor, ElementRange range, std::byte* into);
// Copies some elements of a slice of a tensor.
void read_slice(const TensorView& tensor, const Slice& slice, ElementRange range, std::byte* into);
// All bytes of a tensor: a pointer to them in place, or to a copy in `buffer`.
const std::byte* bytes_of(const TensorView& tensor, std::vector<std::byte>& buffer);

}  // namespace distbelief::checkpoint
