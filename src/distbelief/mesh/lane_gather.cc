#include "distbelief/mesh/lane_gather.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace distbelief::mesh {
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

std::vector<std::vector<Span>> gathered_spans(model::Network& network, const compute::Layout& layout,
                                              Course course) {
  std::vector<std::vector<Span>> blocks = block_spans(network, layout);
  if (course == Course::kOnce) return blocks;
  std::map<std::size_t, Span> all;  // a parameter may be in several blocks
  for (const std::vector<Span>& block : blocks)
    for (const Span& span : block) all.emplace(span.begin, span);
  std::vector<Span> together;
  for (const auto& [begin, span] : all) together.push_back(span);
  return {together};
}

// Identity on activations and gradients; calls the gather when backward passes through.
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
      gather->end_backward(block);
    return {gradients[0], {}, {}, {}};
  }
  static torch::Tensor at(LaneGather& gather, int block, Side side, const torch::Tensor& values) {
    return apply(values, reinterpret_cast<std::int64_t>(&gather), std::int64_t(block), std::int64_t(side));
  }
};

LaneGather::LaneGather(const Options& options) : options_(options) {
  if (options_.fetch)
    arena_.emplace(compute::GatheredArena::Options{.elements = options_.layout->size(),
                                                   .blocks = block_spans(*options_.network, *options_.layout),
                                                   .fetch = options_.fetch});
  options_.network->watch(this);
}

LaneGather::~LaneGather() { options_.network->watch(nullptr); }

void LaneGather::begin(Pass pass) {
  pass_ = pass;
  if (options_.passes) options_.passes->begin_pass();
}

void LaneGather::finish() {
  if (arena_) arena_->release_all();
  if (options_.passes) options_.passes->end_pass();
}

// When the host gathers blocks, the host also prefetches them.
void LaneGather::hold(int block, int place, int next) {
  if (options_.passes) options_.passes->hold(options_.course == Course::kOnce ? place : 0);
  if (!arena_) return;
  arena_->hold(block);
  if (!options_.passes && next >= 0 && next < blocks()) arena_->prefetch(next);
}

void LaneGather::release(int block, int place) {
  if (arena_) arena_->release(block);
  if (options_.passes && options_.course == Course::kOnce) options_.passes->used(place);
}

torch::Tensor LaneGather::enter(int block, torch::Tensor input) {
  hold(index(block), index(block), index(block) + 1);
  if (!torch::GradMode::is_enabled() || !input.requires_grad()) return input;
  return AtBackward::at(*this, block, AtBackward::Side::kInput, input);
}

torch::Tensor LaneGather::leave(int block, torch::Tensor output) {
  const bool comes_back = torch::GradMode::is_enabled() && output.requires_grad();
  const bool turns_here = index(block) + 1 == blocks() && pass_ == Pass::kThereAndBack;
  if (!comes_back || !turns_here) release(index(block), index(block));
  if (!comes_back) return output;
  return AtBackward::at(*this, block, AtBackward::Side::kOutput, output);
}

void LaneGather::begin_backward(int block) {
  hold(index(block), backward_place(pass_, index(block), blocks()), index(block) - 1);
}

void LaneGather::end_backward(int block) {
  release(index(block), backward_place(pass_, index(block), blocks()));
}

std::unique_ptr<LaneGather> make_gather(AllreduceGroup& group, model::Network& network, int thread,
                                        Course course) {
  if (!group.shares_out_parameters() && !group.gathers_between_hosts()) return nullptr;
  LaneGather::Options options{.network = &network,
                              .layout = &group.layout(),
                              .shared = group.parameters(),
                              .passes = group.sharing(thread).passes(),
                              .course = course};
  if (group.shares_out_parameters())
    options.fetch = [&group](Span from, float* to) { group.read_parameters(from, to); };
  return std::make_unique<LaneGather>(options);
}

}  // namespace distbelief::mesh
