#include "distbelief/model/max_pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace distbelief::model {
namespace {

bool has_same_bits(const torch::Tensor& one, const torch::Tensor& other) {
  const torch::Tensor a = one.contiguous(), b = other.contiguous();
  return a.sizes() == b.sizes() &&
         std::memcmp(a.data_ptr<float>(), b.data_ptr<float>(), a.numel() * sizeof(float)) == 0;
}

void expect_as_torch(const torch::Tensor& values) {
  const torch::Tensor mine = values.clone().requires_grad_(), theirs = values.clone().requires_grad_();
  const torch::Tensor pooled = max_pool_2x2(mine), expected = torch::max_pool2d(theirs, 2);
  EXPECT_NE(pooled.grad_fn()->name(), expected.grad_fn()->name()) << "torch's own was used";
  EXPECT_TRUE(has_same_bits(pooled, expected));
  const torch::Tensor gradient = torch::randn(expected.sizes());
  pooled.backward(gradient);
  expected.backward(gradient);
  EXPECT_TRUE(has_same_bits(mine.grad(), theirs.grad()));
}

TEST(MaxPool2x2, HasTheBitsOfTorch) {
  torch::manual_seed(1);
  expect_as_torch(torch::randn({3, 5, 8, 12}));
  expect_as_torch(torch::randn({2, 3, 7, 9}));                  // a row and a column are left over
  expect_as_torch(torch::randn({2, 4, 6, 6}).transpose(2, 3));  // not contiguous
  expect_as_torch(torch::randint(0, 3, {4, 4, 10, 10}).to(torch::kFloat));  // equal values
}

TEST(MaxPool2x2, ChoosesAmongWhatIsNoNumberAsTorchDoes) {
  torch::manual_seed(1);
  torch::Tensor values = torch::randn({2, 2, 8, 8});
  values[0][0][0][1] = std::nanf("");
  values[0][0][1][0] = std::nanf("");
  values[1][1].fill_(-std::numeric_limits<float>::infinity());
  expect_as_torch(values);
}

TEST(MaxPool2x2, HasThemWhereNothingIsTrained) {
  const torch::NoGradGuard no_grad;
  for (const Shape& shape : {Shape{3, 5, 8, 12}, Shape{2, 3, 7, 9}}) {
    const torch::Tensor values = torch::randn(shape).requires_grad_();
    EXPECT_TRUE(has_same_bits(max_pool_2x2(values), torch::max_pool2d(values, 2)));
  }
}

TEST(MaxPool2x2, LeavesToTorchWhatIsNoFloat) {
  const torch::Tensor wide = torch::randn({1, 1, 4, 4}, torch::kDouble).requires_grad_();
  EXPECT_TRUE(max_pool_2x2(wide).equal(torch::max_pool2d(wide, 2)));
}

}  // namespace
}  // namespace distbelief::model
