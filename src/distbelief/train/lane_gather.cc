#include "distbelief/train/lane_gather.h"

#include <algorithm>
#include <unordered_map>

namespace distbelief::train {
namespace {

using compute::kBlock;
using compute::Span;

}  // namespace

std::vector<std::vector<Span>> block_spans(model::Network& network, const compute::Layout& layout) {
  std::unordered_map<const c10::TensorImpl*, Span> places;
  std::unordered_map<std::string, const compute::Entry*> entries;
  for (const compute::Entry& entry : layout.entries()) entries[entry.name] = &entry;
  for (const auto& item : network.named_parameters())
    if (const auto found = entries.find(item.key()); found != entries.end()) {
      const std::size_t begin = found->second->offset;
      const std::size_t blocks = (found->second->count + kBlock - 1) / kBlock;
      places[item.value().unsafeGetTensorImpl()] = {begin, begin + blocks * kBlock};
    }
  std::vector<std::vector<Span>> spans;
  for (int b = network.range().begin; b < network.range().end; ++b) {
    std::vector<torch::Tensor> read = network.block(b).parameters();
    for (const torch::Tensor& tensor : network.block(b).borrowed()) read.push_back(tensor);
    std::vector<Span>& own = spans.emplace_back();
    for (const torch::Tensor& tensor : read)
      if (const auto place = places.find(tensor.unsafeGetTensorImpl()); place != places.end())
        own.push_back(place->second);
    std::sort(own.begin(), own.end(), [](Span a, Span b2) { return a.begin < b2.begin; });
    own.erase(std::unique(own.begin(), own.end(), [](Span a, Span b2) { return a.begin == b2.begin; }),
              own.end());
  }
  return spans;
}

// Passes activations and gradients on as they are, and says when backward comes by.
class LaneGather::AtBackward : public torch::autograd::Function<AtBackward> {
 public:
  enum class Side { kInput, kOutput };
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& values,
                               std::int64_t gather, std::int64_t block, std::int64_t side) {
    context->saved_data["gather"] = gather;
    context->saved_data["block"] = block;
    context->saved_data["side"] = side;
    return values.view_as(values);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    auto* gather = reinterpret_cast<LaneGather*>(context->saved_data["gather"].toInt());
    const int block = int(context->saved_data["block"].toInt());
    if (Side(context->saved_data["side"].toInt()) == Side::kOutput)
      gather->begin_backward(block);
    else
      gather->arena_.release(gather->index(block));
    return {gradients[0], {}, {}, {}};
  }
  static torch::Tensor at(LaneGather& gather, int block, Side side, const torch::Tensor& values) {
    return apply(values, reinterpret_cast<std::int64_t>(&gather), std::int64_t(block), std::int64_t(side));
  }
};

LaneGather::LaneGather(model::Network& network, const compute::Layout& layout,
                       std::function<void(Span from, float* to)> fetch)
    : network_(network),
      arena_({.elements = layout.size(), .blocks = block_spans(network, layout), .fetch = std::move(fetch)}) {
  network_.watch(this);
}

LaneGather::~LaneGather() { network_.watch(nullptr); }

torch::Tensor LaneGather::enter(int block, torch::Tensor input) {
  arena_.hold(index(block));
  if (!is_last(block)) arena_.prefetch(index(block) + 1);
  if (!torch::GradMode::is_enabled() || !input.requires_grad()) return input;
  return AtBackward::at(*this, block, AtBackward::Side::kInput, input);
}

torch::Tensor LaneGather::leave(int block, torch::Tensor output) {
  const bool comes_back = torch::GradMode::is_enabled() && output.requires_grad();
  if (!comes_back || !is_last(block)) arena_.release(index(block));  // the last one's backward comes next
  if (!comes_back) return output;
  return AtBackward::at(*this, block, AtBackward::Side::kOutput, output);
}

void LaneGather::begin_backward(int block) {
  arena_.hold(index(block));
  if (index(block) > 0) arena_.prefetch(index(block) - 1);
}

}  // namespace distbelief::train
