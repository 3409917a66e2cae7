#pragma once

#include <torch/torch.h>

namespace distbelief::tasks {

// Returns a random variant of each sample that a person would still recognize. Images are turned, sheared,
// scaled, shifted, changed in brightness and contrast, and lose a hole; features get noise. Draws from the
// lane's randomness (model/random.h).
torch::Tensor altered_view(const torch::Tensor& samples);

}  // namespace distbelief::tasks
