#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What fills the layers of an FBNet (model/fbnet.h), and how that is written. Without torch.
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

// "k3_e1 k5_e3_g2 skip" for so many layers; empty: k3_e3 everywhere. Throws Error(kBadInput) naming the layer
// and what it may be.
std::vector<Candidate> parse_architecture(const std::string& text, const std::vector<FbnetLayer>& layers);
std::string architecture_text(const std::vector<Candidate>& architecture);

}  // namespace distbelief::model
