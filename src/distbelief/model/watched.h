#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

namespace distbelief::model {

// Whether what this thread computes is traced or described, and so has to be an operation of torch.
inline bool is_watched() { return torch::jit::tracer::isTracing() || at::hasThreadLocalCallbacks(); }

}  // namespace distbelief::model
