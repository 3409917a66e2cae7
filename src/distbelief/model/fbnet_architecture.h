#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The candidates for an FBNet's layers (model/fbnet.h) and their text form. Without torch.
namespace distbelief::model {

// One choice for a layer. "k5_e3_g2": an inverted residual block with a depthwise 5 x 5 convolution between
// two 1 x 1 convolutions, three times as wide inside, in two groups whose channels are shuffled. "skip": the
// identity, so that the search also chooses the positions of blocks.
struct Candidate {
  std::int64_t kernel = 0;  // 0: skip
  std::int64_t expansion = 1;
  std::int64_t groups = 1;
  friend bool operator==(const Candidate&, const Candidate&) = default;
};
std::string candidate_name(const Candidate& candidate);

// The inputs and outputs that a layer's candidate must have.
struct FbnetLayer {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t stride = 1;
  std::int64_t height = 0;  // of the input
  std::int64_t width = 0;
  bool keeps_shape() const { return inputs == outputs && stride == 1; }
};

// All candidates for a layer, always in the same order; skip is the last and allowed only where the shape
// stays.
std::vector<Candidate> candidates_of(const FbnetLayer& layer);
inline constexpr std::int64_t kMostCandidates = 9;

// Parses "k3_e1 k5_e3_g2 skip" with one candidate per layer; empty: k3_e3 everywhere. Throws Error(kBadInput)
// with the layer and its valid candidates.
std::vector<Candidate> parse_architecture(const std::string& text, const std::vector<FbnetLayer>& layers);
std::string architecture_text(const std::vector<Candidate>& architecture);

}  // namespace distbelief::model
