#pragma once

#include <torch/torch.h>

namespace distbelief::tasks {

// Samples as they might have been, each altered by itself: images turned, sheared, scaled, shifted, brighter
// or darker, with more or less contrast and with a hole; of features, with noise. What they show stays the
// same to a person. Draws from the lane's randomness (model/random.h).
torch::Tensor altered_view(const torch::Tensor& samples);

}  // namespace distbelief::tasks
