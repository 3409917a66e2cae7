#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

namespace distbelief::model {

// Whether this thread's computation is traced or described, and so must consist of torch operations.
inline bool is_watched() { return torch::jit::tracer::isTracing() || at::hasThreadLocalCallbacks(); }

}  // namespace distbelief::model
