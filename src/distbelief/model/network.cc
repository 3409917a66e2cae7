#include "distbelief/model/network.h"

#include <algorithm>

#include "distbelief/base/random.h"
#include "distbelief/model/random.h"

namespace distbelief::model {
namespace {

// Separates initial weights from the randomness of lanes and augmentation.
constexpr std::uint64_t kWeightStream = 0x77656967;

// The module at a dotted path below `root`; creates missing ones.
torch::nn::Module& container(torch::nn::Module& root, const std::string& path) {
  torch::nn::Module* place = &root;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, dot - begin);
    const auto children = place->named_children();
    const auto* found = children.find(name);
    place = found ? found->get() : place->register_module(name, std::make_shared<torch::nn::Module>()).get();
    begin = dot + 1;
  }
  return *place;
}

}  // namespace

LayerBlock::LayerBlock(torch::nn::Sequential layers) : layers_(std::move(layers)) {
  for (const auto& layer : layers_->named_children()) register_module(layer.key(), layer.value());
}

void Block::keep_slice(torch::Tensor tensor, int dimension, const Slice& slice) {
  const torch::NoGradGuard no_grad;
  const Shape whole = tensor.sizes().vec();
  const torch::Tensor kept = tensor.detach()
                                 .reshape({slice.outer, slice.whole, slice.inner})
                                 .narrow(1, slice.begin, slice.count)
                                 .clone(torch::MemoryFormat::Contiguous);
  Shape shape = whole;
  shape[std::size_t(dimension)] = shape[std::size_t(dimension)] * slice.count / slice.whole;
  slices_.push_back({tensor, slice, whole});
  tensor.set_data(kept.view(shape));
}

void seed_block(std::uint64_t seed, int block) {
  torch::manual_seed(derive_seed({seed, kWeightStream, std::uint64_t(block)}));
}

void compute_on(const torch::Device& device, Blueprint& blueprint) {
  for (BlockRecipe& recipe : blueprint) recipe.device = device;
}

Network::Network(const Blueprint& blueprint, BlockRange range, std::uint64_t seed, TensorGroup* group,
                 const Made& made)
    : range_(range) {
  for (int i = range.begin; i < range.end; ++i) {
    const BlockRecipe& recipe = blueprint[std::size_t(i)];
    seed_block(seed, i);
    blocks_.push_back(recipe.make({.network = *this, .seed = seed, .group = group}));
    device_ = recipe.device;
    if (!device_.is_cpu()) blocks_.back()->to(device_);  // drawn on the host: the same weights anywhere
    hold(recipe.path, *blocks_.back());
    if (made) made(*this, i);
  }
}

void Network::hold(const std::string& path, Block& block) {
  torch::nn::Module& place = container(*this, path);
  for (const auto& child : block.named_children()) place.register_module(child.key(), child.value());
  for (const auto& own : block.named_parameters(/*recurse=*/false))
    place.register_parameter(own.key(), own.value(), own.value().requires_grad());
  for (const auto& own : block.named_buffers(/*recurse=*/false))
    place.register_buffer(own.key(), own.value());
}

SlicedTensor Network::sliced(const torch::Tensor& tensor) const {
  for (const auto& block : blocks_)
    for (const SlicedTensor& each : block->slices())
      if (each.tensor.is_same(tensor)) return each;
  const Shape shape = tensor.sizes().vec();
  return {tensor, whole_of(shape), shape};
}

bool Network::is_sliced() const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [](const auto& block) { return !block->slices().empty(); });
}

torch::Tensor Network::forward(torch::Tensor input) {
  for (int i = range_.begin; i < range_.end; ++i) input = forward(i, std::move(input));
  return input;
}

torch::Tensor Network::forward(int block, torch::Tensor input) {
  begin_stream(std::uint64_t(block));
  if (watch_ == nullptr) return this->block(block).forward(std::move(input));
  return watch_->leave(block, this->block(block).forward(watch_->enter(block, std::move(input))));
}

}  // namespace distbelief::model
