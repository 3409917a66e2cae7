#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

struct ModelEntry {
  std::string name;
  std::string description;
  std::vector<OptionSpec> options;
  DataShape typical;  // data shape for `distbelief models NAME`
  DataShape bench;    // data shape for `distbelief bench step`
  // `options` must be resolved. Throws Error(kBadInput), naming a valid shape, when the data's shape does not
  // fit.
  Blueprint (*blueprint)(const OptionMap& options, const DataShape& shape);
  bool splits_features = false;  // each worker of a tensor group may hold only some features of a sample
  std::string task{};            // default of train.task; empty: decided by the data
  // Suffix of the names of buffers that only training needs; exports leave them out.
  std::string training_state{};
};

// All models known by name.
const std::vector<ModelEntry>& models();
bool is_training_state(const ModelEntry& entry, const std::string& tensor);
// The job's options with defaults. Throws Error(kBadInput) for options that the model lacks.
OptionMap resolved_options(const ModelConfig& config);
const ModelEntry& find_model(const std::string& name);  // throws Error(kBadInput) with the nearest name

// The blocks of the model that [model] names.
Blueprint model_blueprint(const ModelConfig& config, const DataShape& shape);

// Builds all blocks, or a range of them, with torch's default initialisation drawn from `seed`. Reseeds
// torch's default generator, so only one thread of a process may build at a time.
std::shared_ptr<Network> build_model(const ModelConfig& config, const DataShape& shape, std::uint64_t seed,
                                     const torch::Device& device = torch::kCPU);
std::shared_ptr<Network> build_blocks(const ModelConfig& config, const DataShape& shape, BlockRange range,
                                      std::uint64_t seed, const torch::Device& device = torch::kCPU);

}  // namespace distbelief::model
