#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/checkpoint/store.h"
#include "distbelief/compute/layout.h"
#include "distbelief/model/registry.h"

namespace distbelief::run {

// Views of a module's parameters and buffers for a safetensors file, under their own names. The views borrow
// the module's memory.
std::vector<checkpoint::TensorView> parameter_views(const torch::nn::Module& module);
std::vector<checkpoint::TensorView> buffer_views(const torch::nn::Module& module);
// Views of the same parameters in the arena, for those that the layout names.
std::vector<checkpoint::TensorView> parameter_views(const torch::nn::Module& module,
                                                    const compute::Layout& layout, const float* arena);

// SHA-256 over the parameters' bytes in name order.
std::string weights_sha256(const torch::nn::Module& module);

// Writes model.safetensors: parameters and buffers, with the model's description as metadata.
void save_model(const torch::nn::Module& module, const std::filesystem::path& path,
                const checkpoint::Metadata& metadata = {});
void save_model(std::vector<checkpoint::TensorView> parameters,
                const std::vector<checkpoint::TensorView>& buffers, const std::filesystem::path& path,
                const checkpoint::Metadata& metadata);
// The metadata of that file: also lists which of its tensors are buffers.
checkpoint::Metadata model_metadata(checkpoint::Metadata metadata, const std::vector<std::string>& buffers);
// Reads such a file into a module of the same structure. Throws Error(kBadInput) naming the first tensor that
// is missing, superfluous or of another shape; then the module is unchanged.
void load_model(torch::nn::Module& module, const std::filesystem::path& path);
void load_tensors(torch::nn::Module& module, const checkpoint::TensorIndex& tensors,
                  const std::string& prefix);
// Throws Error(kBadInput) unless the found tensor has this type and shape.
void require_same(const checkpoint::TensorIndex& tensors, const checkpoint::TensorView& found,
                  ElementType type, const Shape& shape);
// Loads tensors into the memory behind the views.
void load_tensors(const std::vector<checkpoint::TensorView>& wanted, const checkpoint::TensorIndex& tensors,
                  const std::string& prefix);

}  // namespace distbelief::run
