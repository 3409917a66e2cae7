#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/model/network.h"
#include "distbelief/model/registry.h"

// Starts a run from given weights (train.init).
namespace distbelief::run {

// A tensor of a network that a file must match.
struct WantedTensor {
  std::string name;
  ElementType type = ElementType::kFloat32;
  Shape shape;
};

// The differences between a file and a network. A network's batch counts may be missing, because older files
// have none. State that only training uses (`training_state` of the model's entry) is ignored on both sides.
struct WeightsComparison {
  std::size_t fitting = 0;
  std::vector<std::string> missing;      // in the file
  std::vector<std::string> superfluous;  // in the file
  // Tensors of another type or shape: "fc.weight is float32 [5, 8], wanted float32 [10, 8]".
  std::vector<std::string> different;

  bool is_same() const { return missing.empty() && superfluous.empty() && different.empty(); }
  std::string text() const;  // all differences in words, long lists shortened
};
WeightsComparison compare_weights(const model::ModelEntry& entry, const std::vector<WantedTensor>& wanted,
                                  const checkpoint::TensorIndex& found);

// Parameters and buffers of a whole network. Builds its blocks one at a time and frees each.
std::vector<WantedTensor> tensors_of(const model::Blueprint& blueprint, std::uint64_t seed);

// The same blocks, initialized with the tensors of the file that fit; a worker with slices takes slices. The
// file stays open as long as the blueprint lives.
model::Blueprint begin_with(const model::ModelEntry& entry, model::Blueprint blueprint,
                            std::shared_ptr<const checkpoint::SafetensorsFile> file);

// The same with the file train.init, whose 16-bit tensors become float32. Throws Error(kBadInput) with every
// difference when nothing fits, or when anything does not fit and train.init_partial is off.
model::Blueprint begin_with_file(const model::ModelEntry& entry, model::Blueprint blueprint,
                                 const TrainConfig& config);
// Describes in words what is taken from the file.
std::string describe_init(const model::ModelEntry& entry, const model::Blueprint& blueprint,
                          const TrainConfig& config);

}  // namespace distbelief::run
