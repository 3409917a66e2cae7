#pragma once

#include <cstddef>

// The arithmetic of the optimizers on plain memory, one vectorised pass each. Roundings are explicit
// (std::fma where torch's kernels fuse, separate operations where they do not), so results do not depend on
// the compiler or the instruction set. Inputs and outputs must not overlap.
namespace distbelief::compute {

struct SgdTerms {
  float lr = 0;
  float momentum = 0;
  float weight_decay = 0;
};
void sgd_plain(float* parameters, const float* gradients, const SgdTerms& terms, std::size_t count);
void sgd_momentum(float* parameters, const float* gradients, float* velocity, const SgdTerms& terms,
                  std::size_t count);
void sgd_nesterov(float* parameters, const float* gradients, float* velocity, const SgdTerms& terms,
                  std::size_t count);

struct AdamTerms {
  float beta1 = 0;
  float beta2 = 0;
  float one_minus_beta1 = 0;
  float one_minus_beta2 = 0;
  float step_size = 0;        // lr / (1 - beta1^t)
  float root_correction = 1;  // sqrt(1 - beta2^t)
  float eps = 0;
  float coupled_decay = 0;  // Adam: added to the gradient
  float shrink = 1;         // AdamW: scales the parameters first
};
void adam(float* parameters, const float* gradients, float* mean, float* square, const AdamTerms& terms,
          std::size_t count);

void adagrad(float* parameters, const float* gradients, float* square, float lr, float eps,
             float weight_decay, std::size_t count);

// LAMB in two passes: first the moments and the squares of the direction, then the parameters once the trust
// ratio is known.
struct LambTerms {
  float beta1 = 0;
  float beta2 = 0;
  float one_minus_beta1 = 0;
  float one_minus_beta2 = 0;
  float mean_correction = 1;    // 1 / (1 - beta1^t)
  float square_correction = 1;  // 1 / (1 - beta2^t)
  float eps = 0;
  float weight_decay = 0;
};
double lamb_moments(const float* parameters, const float* gradients, float* mean, float* square,
                    const LambTerms& terms, std::size_t count);
void lamb_apply(float* parameters, const float* mean, const float* square, const LambTerms& terms, float rate,
                std::size_t count);

// velocity = momentum * velocity + rate * (gradient + weight_decay * parameter); parameter -= velocity
void lars_apply(float* parameters, const float* gradients, float* velocity, float rate, float momentum,
                float weight_decay, std::size_t count);

// Sum of squares in double, in an order fixed by the index alone.
double sum_of_squares(const float* values, std::size_t count);

}  // namespace distbelief::compute
