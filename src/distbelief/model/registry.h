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
  DataShape typical;  // what `distbelief models NAME` describes it for
  DataShape bench;    // what `distbelief bench step` runs it on
  // `options` are resolved ones. Throws Error(kBadInput) when the data's shape does not fit, saying what
  // would.
  Blueprint (*blueprint)(const OptionMap& options, const DataShape& shape);
  bool splits_features = false;  // workers of a tensor group may each have some of a sample's features
  std::string task{};            // that it is made for (train.task); empty: what the data asks for
  // How the names of buffers end that training carries on and nobody else wants: no part of what is exported.
  std::string training_state{};
};

// All models known by name.
const std::vector<ModelEntry>& models();
bool is_training_state(const ModelEntry& entry, const std::string& tensor);
// Of a job, with defaults where it says nothing. Throws Error(kBadInput) for options that the model lacks.
OptionMap resolved_options(const ModelConfig& config);
const ModelEntry& find_model(const std::string& name);  // throws Error(kBadInput) with the nearest name

// The blocks of what [model] names.
Blueprint model_blueprint(const ModelConfig& config, const DataShape& shape);

// Builds all of them, or a run of them, with torch's default initialisation drawn from `seed`. Reseeds
// torch's default generator, so one thread of a process builds at a time.
std::shared_ptr<Network> build_model(const ModelConfig& config, const DataShape& shape, std::uint64_t seed,
                                     const torch::Device& device = torch::kCPU);
std::shared_ptr<Network> build_blocks(const ModelConfig& config, const DataShape& shape, BlockRange range,
                                      std::uint64_t seed, const torch::Device& device = torch::kCPU);

}  // namespace distbelief::model
