#pragma once

#include <filesystem>
#include <span>

#include "distbelief/checkpoint/tensor_index.h"

namespace distbelief::run {

// Writes tensors in the format of torch.load(): a zip archive with a pickled collections.OrderedDict of names
// and tensors that `weights_only` accepts. Writes whole or not at all. Throws Error(kUnavailable) when the
// disk refuses.
void write_state_dict(const std::filesystem::path& path, std::span<const checkpoint::TensorView> tensors);

}  // namespace distbelief::run
