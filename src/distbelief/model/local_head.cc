#include "distbelief/model/local_head.h"

#include <fmt/format.h>

#include <algorithm>

namespace distbelief::model {
namespace {

constexpr std::int64_t kMostPixels = 4;  // per side

Shape pooled(const Shape& input) {
  if (input.size() != 3) return input;
  return {input[0], std::min(kMostPixels, input[1]), std::min(kMostPixels, input[2])};
}

}  // namespace

LocalHead::LocalHead(int number, const Shape& input, std::int64_t outputs) {
  fc_ = register_module(fmt::format("local_head{}", number),
                        torch::nn::Linear(element_count(pooled(input)), outputs));
}

torch::Tensor LocalHead::forward(torch::Tensor input) {
  if (!fc_->is_training()) return input;
  given_ = input.detach();
  if (input.dim() == 4) {
    const Shape size = pooled({input.size(1), input.size(2), input.size(3)});
    input = torch::adaptive_avg_pool2d(input, {size[1], size[2]});
  }
  return fc_(input.flatten(1));
}

}  // namespace distbelief::model
