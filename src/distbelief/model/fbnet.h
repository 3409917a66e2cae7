#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/fbnet_architecture.h"
#include "distbelief/model/network.h"

// FBNet (Wu et al., "FBNet: Hardware-Aware Efficient ConvNet Design via Differentiable Neural Architecture
// Search", 2019) on a small search space: a stem, layers with one of a few candidates each, a classifier.
// model/fbnet_search.h has the network that chooses the candidates.
namespace distbelief::model {

// Parts common to all choices: the options stem, widths and depth of the model `name`, and the layers that
// follow from them. Throws Error(kBadInput) for widths that two groups cannot share, or images too small.
std::vector<OptionSpec> fbnet_frame_options();
std::vector<FbnetLayer> fbnet_layers(const std::string& name, const OptionMap& options,
                                     const DataShape& shape);

// Channel c of group g of `groups` becomes channel c * groups + g, so each group of the next convolution sees
// channels of every group (Zhang et al., "ShuffleNet", 2018).
torch::Tensor shuffle_channels(const torch::Tensor& input, std::int64_t groups);

std::shared_ptr<Block> make_candidate(const Candidate& candidate, const FbnetLayer& layer);
BlockRecipe fbnet_stem(const std::string& path, const OptionMap& options, const DataShape& shape);
BlockRecipe fbnet_head(const std::string& path, const OptionMap& options, const DataShape& shape);

std::vector<OptionSpec> fbnet_options();
Blueprint fbnet_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
