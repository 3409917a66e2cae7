#include "distbelief/model/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace distbelief::model {
namespace {

constexpr std::int64_t kSamples = 3, kLength = 5, kHeads = 2, kHead = 4, kWidth = kHeads * kHead;

torch::Tensor no_look_ahead() {
  return torch::full({kLength, kLength}, -std::numeric_limits<double>::infinity(), torch::kDouble).triu(1);
}

// Follows the formula: one head, sample and position at a time.
torch::Tensor expected(const torch::Tensor& qkv, const torch::Tensor& bias) {
  std::vector<torch::Tensor> samples;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    std::vector<torch::Tensor> heads;
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const auto part = [&](std::int64_t p) { return qkv[i].narrow(1, p * kWidth + h * kHead, kHead); };
      torch::Tensor scores = part(0).mm(part(1).t()) / std::sqrt(double(kHead));
      if (bias.defined()) scores = scores + bias;
      heads.push_back(scores.softmax(-1).mm(part(2)));
    }
    samples.push_back(torch::cat(heads, 1));
  }
  return torch::stack(samples);
}

void expect_formula(const torch::Tensor& bias) {
  torch::manual_seed(1);
  const torch::Tensor values = torch::randn({kSamples, kLength, 3 * kWidth}, torch::kDouble);
  const torch::Tensor mine = values.clone().requires_grad_(), theirs = values.clone().requires_grad_();
  const torch::Tensor found = attention(mine, kHeads, bias), wanted = expected(theirs, bias);
  EXPECT_TRUE(found.allclose(wanted, 1e-12, 1e-12));
  const torch::Tensor gradient = torch::randn(wanted.sizes(), torch::kDouble);
  found.backward(gradient);
  wanted.backward(gradient);
  EXPECT_TRUE(mine.grad().allclose(theirs.grad(), 1e-12, 1e-12));
}

TEST(Attention, FollowsTheFormulaForwardAndBackward) { expect_formula({}); }

TEST(Attention, DoesNotLookWhereTheBiasForbidsIt) {
  expect_formula(no_look_ahead());
  torch::Tensor first = torch::randn({1, kLength, 3 * kWidth}, torch::kDouble), second = first.clone();
  second.narrow(1, kLength - 1, 1).zero_();
  const torch::Tensor bias = no_look_ahead();
  EXPECT_TRUE(attention(first, kHeads, bias)
                  .narrow(1, 0, kLength - 1)
                  .equal(attention(second, kHeads, bias).narrow(1, 0, kLength - 1)));
}

// A sample's result must not depend on the rest of the batch, because lanes regroup samples.
TEST(Attention, OfASampleHasTheSameBitsInAnyBatch) {
  torch::manual_seed(1);
  const torch::Tensor batch = torch::randn({kSamples, kLength, 3 * kWidth});
  const torch::Tensor together = attention(batch, kHeads, {});
  for (std::int64_t i = 0; i < kSamples; ++i)
    EXPECT_TRUE(attention(batch.narrow(0, i, 1), kHeads, {})[0].equal(together[i])) << i;
}

TEST(Attention, TakesInputsThatAreNotContiguous) {
  torch::manual_seed(1);
  const torch::Tensor batch = torch::randn({kLength, kSamples, 3 * kWidth}, torch::kDouble);
  EXPECT_TRUE(attention(batch.transpose(0, 1), kHeads, {})
                  .allclose(expected(batch.transpose(0, 1), {}), 1e-12, 1e-12));
}

}  // namespace
}  // namespace distbelief::model
