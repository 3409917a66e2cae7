#pragma once

#include <torch/torch.h>

#include <string>

#include "distbelief/base/array.h"

namespace distbelief::model {

torch::ScalarType torch_type(ElementType type);

// Throws Error(kBadInput) for an unsupported type: "WHAT has type Half; ...".
ElementType element_type(const torch::Tensor& tensor, const std::string& what);

}  // namespace distbelief::model
