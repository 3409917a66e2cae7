#include "distbelief/compute/kernels.h"

#include <cmath>

#include "distbelief/base/simd.h"

namespace distbelief::compute {
namespace {

constexpr std::size_t kTracks = 16;  // independent partial sums: enough for the widest registers

double fold(const double* tracks) {
  double sum = 0;
  for (std::size_t i = 0; i < kTracks; ++i) sum += tracks[i];
  return sum;
}

}  // namespace

DISTBELIEF_MULTIVERSION void sgd_plain(float* __restrict parameters, const float* __restrict gradients,
                                       const SgdTerms& terms, std::size_t count) {
  const float lr = terms.lr, decay = terms.weight_decay;
  for (std::size_t i = 0; i < count; ++i)
    parameters[i] = std::fma(-lr, std::fma(decay, parameters[i], gradients[i]), parameters[i]);
}

DISTBELIEF_MULTIVERSION void sgd_momentum(float* __restrict parameters, const float* __restrict gradients,
                                          float* __restrict velocity, const SgdTerms& terms,
                                          std::size_t count) {
  const float lr = terms.lr, decay = terms.weight_decay, momentum = terms.momentum;
  for (std::size_t i = 0; i < count; ++i) {
    const float kept = momentum * velocity[i];
    const float moved = kept + std::fma(decay, parameters[i], gradients[i]);
    velocity[i] = moved;
    parameters[i] = std::fma(-lr, moved, parameters[i]);
  }
}

DISTBELIEF_MULTIVERSION void sgd_nesterov(float* __restrict parameters, const float* __restrict gradients,
                                          float* __restrict velocity, const SgdTerms& terms,
                                          std::size_t count) {
  const float lr = terms.lr, decay = terms.weight_decay, momentum = terms.momentum;
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = std::fma(decay, parameters[i], gradients[i]);
    const float kept = momentum * velocity[i];
    const float moved = kept + gradient;
    velocity[i] = moved;
    parameters[i] = std::fma(-lr, std::fma(momentum, moved, gradient), parameters[i]);
  }
}

// Rounds like torch's addcmul_ and addcdiv_, because differences in the last bit grow: where a gradient is
// pure rounding error, Adam moves the weight by the whole rate in either direction.
DISTBELIEF_MULTIVERSION void adam(float* __restrict parameters, const float* __restrict gradients,
                                  float* __restrict mean, float* __restrict square, const AdamTerms& terms,
                                  std::size_t count) {
  const AdamTerms t = terms;
  for (std::size_t i = 0; i < count; ++i) {
    const float parameter = parameters[i] * t.shrink;
    const float gradient = std::fma(t.coupled_decay, parameter, gradients[i]);
    const float kept_mean = t.beta1 * mean[i];
    const float new_mean = std::fma(t.one_minus_beta1, gradient, kept_mean);
    const float kept_square = t.beta2 * square[i];
    const float new_square = std::fma(t.one_minus_beta2 * gradient, gradient, kept_square);
    mean[i] = new_mean;
    square[i] = new_square;
    const float divisor = std::sqrt(new_square) / t.root_correction + t.eps;
    parameters[i] = parameter - t.step_size * new_mean / divisor;
  }
}

DISTBELIEF_MULTIVERSION void adagrad(float* __restrict parameters, const float* __restrict gradients,
                                     float* __restrict square, float lr, float eps, float weight_decay,
                                     std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = std::fma(weight_decay, parameters[i], gradients[i]);
    const float sum = square[i] + gradient * gradient;
    square[i] = sum;
    parameters[i] = parameters[i] - lr * (gradient / (std::sqrt(sum) + eps));
  }
}

DISTBELIEF_MULTIVERSION double lamb_moments(const float* __restrict parameters,
                                            const float* __restrict gradients, float* __restrict mean,
                                            float* __restrict square, const LambTerms& terms,
                                            std::size_t count) {
  const LambTerms t = terms;
  double tracks[kTracks] = {};
  const std::size_t whole = count / kTracks * kTracks;
  const auto one = [&](std::size_t i) {
    mean[i] = std::fma(t.one_minus_beta1, gradients[i], t.beta1 * mean[i]);
    square[i] = t.beta2 * square[i] + t.one_minus_beta2 * gradients[i] * gradients[i];
    const float direction =
        std::fma(t.weight_decay, parameters[i],
                 mean[i] * t.mean_correction / (std::sqrt(square[i] * t.square_correction) + t.eps));
    return double(direction) * double(direction);
  };
  for (std::size_t i = 0; i < whole; i += kTracks)
    for (std::size_t k = 0; k < kTracks; ++k) tracks[k] += one(i + k);
  for (std::size_t i = whole; i < count; ++i) tracks[i - whole] += one(i);
  return fold(tracks);
}

DISTBELIEF_MULTIVERSION void lamb_apply(float* __restrict parameters, const float* __restrict mean,
                                        const float* __restrict square, const LambTerms& terms, float rate,
                                        std::size_t count) {
  const LambTerms t = terms;
  for (std::size_t i = 0; i < count; ++i) {
    const float direction =
        std::fma(t.weight_decay, parameters[i],
                 mean[i] * t.mean_correction / (std::sqrt(square[i] * t.square_correction) + t.eps));
    parameters[i] = std::fma(-rate, direction, parameters[i]);
  }
}

DISTBELIEF_MULTIVERSION void lars_apply(float* __restrict parameters, const float* __restrict gradients,
                                        float* __restrict velocity, float rate, float momentum,
                                        float weight_decay, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = std::fma(weight_decay, parameters[i], gradients[i]);
    const float moved = std::fma(rate, gradient, momentum * velocity[i]);
    velocity[i] = moved;
    parameters[i] = parameters[i] - moved;
  }
}

DISTBELIEF_MULTIVERSION double sum_of_squares(const float* values, std::size_t count) {
  double tracks[kTracks] = {};
  const std::size_t whole = count / kTracks * kTracks;
  for (std::size_t i = 0; i < whole; i += kTracks)
    for (std::size_t k = 0; k < kTracks; ++k) tracks[k] += double(values[i + k]) * double(values[i + k]);
  for (std::size_t i = whole; i < count; ++i) tracks[i - whole] += double(values[i]) * double(values[i]);
  return fold(tracks);
}

}  // namespace distbelief::compute
