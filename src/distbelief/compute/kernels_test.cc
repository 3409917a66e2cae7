#include "distbelief/compute/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "distbelief/base/random.h"

namespace distbelief::compute {
namespace {

using Floats = std::vector<float>;

Floats random_floats(std::uint64_t seed, std::size_t count) {
  SplitMix64 random(seed);
  Floats values(count);
  for (float& value : values) value = float(random.uniform() * 2 - 1);
  return values;
}

// Sizes around every vector width, and one of many iterations.
const std::size_t kCounts[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 1000};

TEST(Kernels, SumOfSquaresAddsInSixteenTracksWhateverTheMachine) {
  for (std::size_t count : kCounts) {
    const Floats values = random_floats(3, count);
    double tracks[16] = {};
    for (std::size_t i = 0; i < count; ++i) tracks[i % 16] += double(values[i]) * double(values[i]);
    double wanted = 0;
    for (double track : tracks) wanted += track;
    EXPECT_EQ(sum_of_squares(values.data(), count), wanted) << count;
  }
}

TEST(Kernels, SumOfSquaresDoesNotDependOnAlignment) {
  const Floats values = random_floats(4, 1024);
  const double wanted = sum_of_squares(values.data(), values.size());
  for (std::size_t shift = 1; shift < 16; ++shift) {
    Floats moved(values.size() + shift);
    std::copy(values.begin(), values.end(), moved.begin() + std::ptrdiff_t(shift));
    EXPECT_EQ(sum_of_squares(moved.data() + shift, values.size()), wanted) << shift;
  }
}

TEST(Kernels, SgdRoundsOncePerFusedOperation) {
  const SgdTerms terms{.lr = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F};
  for (std::size_t count : kCounts) {
    const Floats start = random_floats(5, count), gradients = random_floats(6, count),
                 before = random_floats(7, count);
    Floats plain = start, heavy = start, nesterov = start, velocity = before, nesterov_velocity = before;
    sgd_plain(plain.data(), gradients.data(), terms, count);
    sgd_momentum(heavy.data(), gradients.data(), velocity.data(), terms, count);
    sgd_nesterov(nesterov.data(), gradients.data(), nesterov_velocity.data(), terms, count);
    for (std::size_t i = 0; i < count; ++i) {
      const float decayed = std::fma(0.01F, start[i], gradients[i]);
      const float kept = 0.9F * before[i];
      const float moved = kept + decayed;
      EXPECT_EQ(plain[i], std::fma(-0.1F, decayed, start[i]));
      EXPECT_EQ(velocity[i], moved);
      EXPECT_EQ(nesterov_velocity[i], moved);
      EXPECT_EQ(heavy[i], std::fma(-0.1F, moved, start[i]));
      EXPECT_EQ(nesterov[i], std::fma(-0.1F, std::fma(0.9F, moved, decayed), start[i]));
    }
  }
}

TEST(Kernels, AdamsFirstStepMovesByTheRateAgainstTheGradientsSign) {
  const double beta1 = 0.9, beta2 = 0.999;
  const AdamTerms terms{.beta1 = 0.9F,
                        .beta2 = 0.999F,
                        .one_minus_beta1 = float(1 - beta1),
                        .one_minus_beta2 = float(1 - beta2),
                        .step_size = float(0.01 / (1 - beta1)),
                        .root_correction = float(std::sqrt(1 - beta2)),
                        .eps = 1e-8F};
  const Floats gradients = random_floats(8, 33);
  Floats parameters(33, 1), mean(33), square(33);
  adam(parameters.data(), gradients.data(), mean.data(), square.data(), terms, 33);
  for (std::size_t i = 0; i < 33; ++i) EXPECT_NEAR(parameters[i], gradients[i] > 0 ? 0.99 : 1.01, 1e-6);
}

TEST(Kernels, AdagradDividesByTheRootOfAllSquares) {
  Floats parameters{1, 2}, square{9, 0};
  const Floats gradients{4, -3};
  adagrad(parameters.data(), gradients.data(), square.data(), 0.5F, 0, 0, 2);
  EXPECT_EQ(square, (Floats{25, 9}));
  EXPECT_FLOAT_EQ(parameters[0], 1 - 0.5F * 4 / 5);
  EXPECT_FLOAT_EQ(parameters[1], 2 + 0.5F);
}

TEST(Kernels, LarsKeepsTheScaledGradientAsVelocity) {
  Floats parameters{1, -2}, velocity{0.5F, 0};
  const Floats gradients{2, 4};
  lars_apply(parameters.data(), gradients.data(), velocity.data(), 0.25F, 0.5F, 1, 2);
  EXPECT_EQ(velocity, (Floats{0.25F + 0.25F * 3, 0.25F * 2}));
  EXPECT_EQ(parameters, (Floats{0, -2.5F}));
}

TEST(Kernels, LambMeasuresTheDirectionInWhichItThenMoves) {
  const LambTerms terms{.beta1 = 0.9F,
                        .beta2 = 0.99F,
                        .one_minus_beta1 = 0.1F,
                        .one_minus_beta2 = 0.01F,
                        .mean_correction = 10,
                        .square_correction = 100,
                        .eps = 1e-6F,
                        .weight_decay = 0.1F};
  for (std::size_t count : kCounts) {
    const Floats start = random_floats(9, count), gradients = random_floats(10, count);
    Floats parameters = start, mean(count), square(count);
    const double squares =
        lamb_moments(parameters.data(), gradients.data(), mean.data(), square.data(), terms, count);
    EXPECT_EQ(parameters, start) << "measuring moves nothing";
    lamb_apply(parameters.data(), mean.data(), square.data(), terms, 1, count);
    double moved = 0;
    for (std::size_t i = 0; i < count; ++i) moved += std::pow(double(start[i]) - double(parameters[i]), 2);
    EXPECT_NEAR(squares, moved, 1e-5 * (1 + moved)) << count;
  }
}

}  // namespace
}  // namespace distbelief::compute
