#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

// FBNet (Wu et al., "FBNet: Hardware-Aware Efficient ConvNet Design via Differentiable Neural Architecture
// Search", 2019) on a small space: a stem, layers of which each is one of a few candidates, a classifier.
// model/fbnet_search.h has the network that chooses among them.
namespace distbelief::model {

// One way to fill a layer. "k5_e3_g2": an inverted residual block with a 5 x 5 convolution of each channel
// between two 1 x 1 convolutions, three times as wide inside, in two groups whose channels are shuffled.
// "skip": nothing, so that the search also chooses at which positions there are blocks.
struct Candidate {
  std::int64_t kernel = 0;  // 0: skip
  std::int64_t expansion = 1;
  std::int64_t groups = 1;
  friend bool operator==(const Candidate&, const Candidate&) = default;
};
std::string candidate_name(const Candidate& candidate);

// A place for a candidate: what goes in and what is to come out.
struct FbnetLayer {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t stride = 1;
  std::int64_t height = 0;  // of the input
  std::int64_t width = 0;
  bool keeps_shape() const { return inputs == outputs && stride == 1; }
};

// All that may fill a layer, always in the same order; skip is the last and only where the shape stays.
std::vector<Candidate> candidates_of(const FbnetLayer& layer);
inline constexpr std::int64_t kMostCandidates = 9;

// What is the same for all choices: options stem, widths and depth of the model `name`, and the layers that
// come of them. Throws Error(kBadInput) for widths that two groups cannot share, or images too small.
std::vector<OptionSpec> fbnet_frame_options();
std::vector<FbnetLayer> fbnet_layers(const std::string& name, const OptionMap& options,
                                     const DataShape& shape);

// "k3_e1 k5_e3_g2 skip" for so many layers; empty: k3_e3 everywhere. Throws Error(kBadInput) naming the layer
// and what it may be.
std::vector<Candidate> parse_architecture(const std::string& text, const std::vector<FbnetLayer>& layers);
std::string architecture_text(const std::vector<Candidate>& architecture);

// Channel c of group g of `groups` becomes channel c * groups + g: the next convolution in groups sees
// some of each (Zhang et al., "ShuffleNet", 2018).
torch::Tensor shuffle_channels(const torch::Tensor& input, std::int64_t groups);

std::shared_ptr<Block> make_candidate(const Candidate& candidate, const FbnetLayer& layer);
BlockRecipe fbnet_stem(const std::string& path, const OptionMap& options, const DataShape& shape);
BlockRecipe fbnet_head(const std::string& path, const OptionMap& options, const DataShape& shape);

std::vector<OptionSpec> fbnet_options();
Blueprint fbnet_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
