#include "distbelief/base/array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace distbelief {

std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::kUint8: return "uint8";
    case ElementType::kInt64: return "int64";
    case ElementType::kFloat32: return "float32";
    case ElementType::kFloat64: return "float64";
  }
  return "unknown";
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace distbelief
