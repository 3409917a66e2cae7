#pragma once

#include <filesystem>
#include <span>

#include "distbelief/checkpoint/tensor_index.h"

namespace distbelief::run {

// Writes the tensors as torch.load() reads them: a zip archive of a pickled collections.OrderedDict of names
// and tensors, with nothing in it but what `weights_only` allows. Whole or not at all. Throws
// Error(kUnavailable) when the disk will not take it.
void write_state_dict(const std::filesystem::path& path, std::span<const checkpoint::TensorView> tensors);

}  // namespace distbelief::run
