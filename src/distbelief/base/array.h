#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace distbelief {

enum class ElementType { kUint8, kInt64, kFloat32, kFloat64 };

constexpr std::size_t element_size(ElementType type) {
  switch (type) {
    case ElementType::kUint8: return 1;
    case ElementType::kInt64: return 8;
    case ElementType::kFloat32: return 4;
    case ElementType::kFloat64: return 8;
  }
  return 0;
}

std::string_view to_string(ElementType type);

using Shape = std::vector<std::int64_t>;

inline std::int64_t element_count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
}

std::string to_string(const Shape& shape);  // "[3, 32, 32]"

// A dense array in host memory that owns its bytes. The data layer hands it to the compute layer. resize()
// keeps the allocation when it is large enough, so one Array can hold batch after batch.
class Array {
 public:
  Array() = default;
  Array(ElementType type, Shape shape) { resize(type, std::move(shape)); }

  void resize(ElementType type, Shape shape) {
    type_ = type;
    shape_ = std::move(shape);
    bytes_.resize(element_size(type) * static_cast<std::size_t>(element_count(shape_)));
  }

  ElementType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  std::byte* data() { return bytes_.data(); }
  const std::byte* data() const { return bytes_.data(); }
  std::size_t byte_count() const { return bytes_.size(); }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(bytes_.data());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }

 private:
  ElementType type_ = ElementType::kFloat32;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

}  // namespace distbelief
