#include "distbelief/model/tensor_type.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"

namespace distbelief::model {

torch::ScalarType torch_type(ElementType type) {
  switch (type) {
    case ElementType::kUint8: return torch::kUInt8;
    case ElementType::kInt64: return torch::kInt64;
    case ElementType::kFloat32: return torch::kFloat32;
    case ElementType::kFloat64: return torch::kFloat64;
  }
  return torch::kFloat32;
}

ElementType element_type(const torch::Tensor& tensor, const std::string& what) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32: return ElementType::kFloat32;
    case torch::kFloat64: return ElementType::kFloat64;
    case torch::kInt64: return ElementType::kInt64;
    case torch::kUInt8: return ElementType::kUint8;
    default: break;
  }
  throw Error(ErrorCode::kBadInput,
              fmt::format("{} has type {}; float32, float64, int64 and uint8 can be saved and sent", what,
                          torch::toString(tensor.scalar_type())));
}

}  // namespace distbelief::model
