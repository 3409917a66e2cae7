#include "distbelief/run/state_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/model/tensor_type.h"

namespace distbelief::run {
namespace {

using checkpoint::TensorView;

template <typename Items>
std::vector<TensorView> views_of(const Items& items) {
  std::vector<TensorView> views;
  for (const auto& item : items) {
    const torch::Tensor& tensor = item.value();
    if (!tensor.is_contiguous() || !tensor.is_cpu())
      throw Error(ErrorCode::kBadInput, fmt::format("tensor '{}' is not {} and cannot be saved", item.key(),
                                                    tensor.is_cpu() ? "contiguous" : "in host memory"));
    views.push_back({item.key(), model::element_type(tensor, fmt::format("tensor '{}'", item.key())),
                     tensor.sizes().vec(), static_cast<const std::byte*>(tensor.data_ptr()), nullptr});
  }
  return views;
}

}  // namespace

std::vector<TensorView> parameter_views(const torch::nn::Module& module) {
  return views_of(module.named_parameters());
}
std::vector<TensorView> parameter_views(const torch::nn::Module& module, const compute::Layout& layout,
                                        const float* arena) {
  std::vector<TensorView> views = parameter_views(module);
  for (TensorView& view : views)
    for (const compute::Entry& entry : layout.entries())
      if (entry.name == view.name) view.data = reinterpret_cast<const std::byte*>(arena + entry.offset);
  return views;
}
std::vector<TensorView> buffer_views(const torch::nn::Module& module) {
  return views_of(module.named_buffers());
}

std::string weights_sha256(const torch::nn::Module& module) {
  return checkpoint::sha256_by_name(parameter_views(module));
}

void save_model(const torch::nn::Module& module, const std::filesystem::path& path,
                const checkpoint::Metadata& metadata) {
  save_model(parameter_views(module), buffer_views(module), path, metadata);
}

void save_model(std::vector<TensorView> views, const std::vector<TensorView>& buffers,
                const std::filesystem::path& path, const checkpoint::Metadata& metadata) {
  views.insert(views.end(), buffers.begin(), buffers.end());
  std::sort(views.begin(), views.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<std::string> names;
  for (const TensorView& view : buffers) names.push_back(view.name);
  checkpoint::write_safetensors(path, views, model_metadata(metadata, names));
}

checkpoint::Metadata model_metadata(checkpoint::Metadata metadata, const std::vector<std::string>& buffers) {
  metadata["format"] = "pt";
  if (!buffers.empty()) metadata["buffers"] = fmt::format("{}", fmt::join(buffers, ","));
  return metadata;
}

void load_model(torch::nn::Module& module, const std::filesystem::path& path) {
  load_tensors(module, checkpoint::SafetensorsFile(path).index(), "");
}

void require_same(const checkpoint::TensorIndex& tensors, const TensorView& found, ElementType type,
                  const Shape& shape) {
  if (found.shape == shape && found.type == type) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("{}: tensor '{}' is {} {}, the model wants {} {}; is it a checkpoint of another model?",
                  tensors.origin().string(), found.name, to_string(found.type), to_string(found.shape),
                  to_string(type), to_string(shape)));
}

void load_tensors(torch::nn::Module& module, const checkpoint::TensorIndex& tensors,
                  const std::string& prefix) {
  std::vector<TensorView> wanted = parameter_views(module);
  const std::vector<TensorView> buffers = buffer_views(module);
  wanted.insert(wanted.end(), buffers.begin(), buffers.end());
  load_tensors(wanted, tensors, prefix);
}

void load_tensors(const std::vector<TensorView>& wanted, const checkpoint::TensorIndex& tensors,
                  const std::string& prefix) {
  for (const TensorView& view : wanted) {
    require_same(tensors, tensors.tensor(prefix + view.name), view.type, view.shape);
  }
  if (prefix.empty() && tensors.all().size() != wanted.size())
    for (const TensorView& found : tensors.all())
      if (std::none_of(wanted.begin(), wanted.end(),
                       [&](const TensorView& view) { return view.name == found.name; }))
        throw Error(ErrorCode::kBadInput, fmt::format("{}: tensor '{}' is not part of the model",
                                                      tensors.origin().string(), found.name));
  for (const TensorView& view : wanted)  // the views point to the module's own memory
    checkpoint::read_elements(tensors.tensor(prefix + view.name), {0, element_count(view.shape)},
                              const_cast<std::byte*>(view.data));
}

}  // namespace distbelief::run
