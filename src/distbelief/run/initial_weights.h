#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/model/network.h"
#include "distbelief/model/registry.h"

// Weights made elsewhere to begin a run with: train.init.
namespace distbelief::run {

// A tensor of a network, by what a file has to fit.
struct WantedTensor {
  std::string name;
  ElementType type = ElementType::kFloat32;
  Shape shape;
};

// How a file and a network differ. A network's counts of batches may be missing: older files have none. What
// only training carries on (`training_state` of the model's entry) does not count, here or there.
struct WeightsComparison {
  std::size_t fitting = 0;
  std::vector<std::string> missing;      // in the file
  std::vector<std::string> superfluous;  // in the file
  std::vector<std::string>
      different;  // of another type or shape: "fc.weight is float32 [5, 8], wanted float32 [10, 8]"

  bool is_same() const { return missing.empty() && superfluous.empty() && different.empty(); }
  std::string text() const;  // all of it in words, lists shortened
};
WeightsComparison compare_weights(const model::ModelEntry& entry, const std::vector<WantedTensor>& wanted,
                                  const checkpoint::TensorIndex& found);

// Parameters and buffers of a whole network. Makes its blocks one after another and forgets them.
std::vector<WantedTensor> tensors_of(const model::Blueprint& blueprint, std::uint64_t seed);

// The same blocks, which then begin with what the file has for them and fits; whoever holds slices takes
// slices. The file is kept open as long as the blueprint lives.
model::Blueprint begin_with(const model::ModelEntry& entry, model::Blueprint blueprint,
                            std::shared_ptr<const checkpoint::SafetensorsFile> file);

// The same of train.init, whose tensors of 16 bits become float32. Throws Error(kBadInput), with every
// difference, when it does not fit: when nothing does, or anything does not without train.init_partial.
model::Blueprint begin_with_file(const model::ModelEntry& entry, model::Blueprint blueprint,
                                 const TrainConfig& config);
// What is taken of it, in words.
std::string describe_init(const model::ModelEntry& entry, const model::Blueprint& blueprint,
                          const TrainConfig& config);

}  // namespace distbelief::run
