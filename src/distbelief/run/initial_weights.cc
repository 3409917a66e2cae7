#include "distbelief/run/initial_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/model/tensor_type.h"

namespace distbelief::run {
namespace {

using checkpoint::HalfFloats;
using checkpoint::TensorView;

bool may_be_missing(const std::string& name) { return name.ends_with("num_batches_tracked"); }

std::string shortened(const char* what, const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 10;
  if (names.empty()) return "";
  const std::vector<std::string> shown(names.begin(),
                                       names.begin() + std::ptrdiff_t(std::min(kMost, names.size())));
  return fmt::format("; {}: {}{}", what, fmt::join(shown, ", "),
                     names.size() > kMost ? fmt::format(" and {} more", names.size() - kMost) : "");
}

std::string full_name(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

// Copies this process's part of a tensor from the whole tensor in the file.
void copy_from(const TensorView& found, const torch::Tensor& tensor, const model::SlicedTensor* sliced) {
  const torch::NoGradGuard no_grad;
  const Shape whole_shape = sliced ? sliced->whole : tensor.sizes().vec();
  if (found.shape != whole_shape || model::torch_type(found.type) != tensor.scalar_type()) return;
  torch::Tensor whole = torch::empty(found.shape, model::torch_type(found.type));
  read_elements(found, {0, element_count(found.shape)},
                model::host_bytes(whole).data());  // not all writers align tensors
  if (sliced) {
    const Slice& slice = sliced->slice;
    whole = whole.reshape({slice.outer, slice.whole, slice.inner}).narrow(1, slice.begin, slice.count);
  }
  tensor.detach().copy_(whole.reshape(tensor.sizes()));
}

void take_weights(model::Block& block, const std::string& path, const model::ModelEntry& entry,
                  const checkpoint::TensorIndex& tensors) {
  const auto take = [&](const auto& items) {
    for (const auto& item : items) {
      const std::string name = full_name(path, item.key());
      const auto sliced = std::find_if(block.slices().begin(), block.slices().end(),
                                       [&](const auto& each) { return each.tensor.is_same(item.value()); });
      if (tensors.has(name) && !model::is_training_state(entry, name))
        copy_from(tensors.tensor(name), item.value(), sliced == block.slices().end() ? nullptr : &*sliced);
    }
  };
  take(block.named_parameters());
  take(block.named_buffers());
}

}  // namespace

std::string WeightsComparison::text() const {
  return fmt::format("{} tensors fit{}{}{}", fitting, shortened("not in the file", missing),
                     shortened("not in the network", superfluous), shortened("different", different));
}

WeightsComparison compare_weights(const model::ModelEntry& entry, const std::vector<WantedTensor>& wanted,
                                  const checkpoint::TensorIndex& found) {
  WeightsComparison result;
  std::set<std::string> known;
  for (const WantedTensor& tensor : wanted) {
    if (model::is_training_state(entry, tensor.name)) continue;
    known.insert(tensor.name);
    if (!found.has(tensor.name)) {
      if (!may_be_missing(tensor.name)) result.missing.push_back(tensor.name);
      continue;
    }
    const TensorView& there = found.tensor(tensor.name);
    if (there.type == tensor.type && there.shape == tensor.shape)
      ++result.fitting;
    else
      result.different.push_back(fmt::format("{} is {} {}, wanted {} {}", tensor.name, to_string(there.type),
                                             to_string(there.shape), to_string(tensor.type),
                                             to_string(tensor.shape)));
  }
  for (const TensorView& tensor : found.all())
    if (!known.contains(tensor.name) && !model::is_training_state(entry, tensor.name))
      result.superfluous.push_back(tensor.name);
  return result;
}

std::vector<WantedTensor> tensors_of(const model::Blueprint& blueprint, std::uint64_t seed) {
  std::vector<WantedTensor> all;
  std::set<std::string> known;
  const auto add = [&](const auto& items) {
    for (const auto& item : items)
      if (known.insert(item.key()).second)
        all.push_back({item.key(), model::element_type(item.value(), "tensor '" + item.key() + "'"),
                       item.value().sizes().vec()});
  };
  for (int block = 0; block < int(blueprint.size()); ++block) {
    const model::Network network(blueprint, {block, block + 1}, seed);
    add(network.named_parameters());
    add(network.named_buffers());
  }
  return all;
}

model::Blueprint begin_with(const model::ModelEntry& entry, model::Blueprint blueprint,
                            std::shared_ptr<const checkpoint::SafetensorsFile> file) {
  for (model::BlockRecipe& recipe : blueprint)
    recipe.make = [make = std::move(recipe.make), path = recipe.path, entry,
                   file](const model::BlockSite& site) {
      std::shared_ptr<model::Block> block = make(site);
      take_weights(*block, path, entry, file->index());
      return block;
    };
  return blueprint;
}

// Checks the file before any block is built, with the same result in all processes.
model::Blueprint begin_with_file(const model::ModelEntry& entry, model::Blueprint blueprint,
                                 const TrainConfig& config) {
  auto file = std::make_shared<const checkpoint::SafetensorsFile>(config.init, HalfFloats::kWidened);
  const WeightsComparison found = compare_weights(entry, tensors_of(blueprint, config.seed), file->index());
  if (!found.is_same() && (!config.init_partial || found.fitting == 0))
    throw Error(ErrorCode::kBadInput,
                fmt::format("the weights of {} are not those of model '{}': {}; {}", config.init, entry.name,
                            found.text(),
                            found.fitting == 0 ? "is it a file of another network?"
                                               : "to take what fits and draw the rest: --init-partial"),
                {.key = "train.init"});
  return begin_with(entry, std::move(blueprint), std::move(file));
}

std::string describe_init(const model::ModelEntry& entry, const model::Blueprint& blueprint,
                          const TrainConfig& config) {
  const checkpoint::SafetensorsFile file(config.init, HalfFloats::kWidened);
  return fmt::format("begins with weights of {}: {}", config.init,
                     compare_weights(entry, tensors_of(blueprint, config.seed), file.index()).text());
}

}  // namespace distbelief::run
