#include "distbelief/run/own_tensors.h"

#include <algorithm>

#include "distbelief/checkpoint/pieces.h"
#include "distbelief/run/state_file.h"

namespace distbelief::run {

DoneWithTensor done_with(const mesh::Stage& stage) {
  if (!stage.group->shares_out_parameters()) return nullptr;
  return [](const checkpoint::TensorView& view) { comm::unmap_pages(view.data, view.byte_count()); };
}

std::vector<checkpoint::TensorView> weight_views(const mesh::Stage& stage) {
  std::vector<checkpoint::TensorView> views =
      parameter_views(*stage.network, stage.group->layout(), stage.group->parameters());
  for (checkpoint::TensorView& view : views) view.done = done_with(stage);
  return views;
}

namespace {

using checkpoint::TensorView;
using Range = checkpoint::ElementRange;

class Collecting {
 public:
  Collecting(const World& peers, Purpose purpose) : is_first_(peers.host() == 0), purpose_(purpose) {}

  void add_weights(const mesh::Stage& stage) {
    const auto parameters = stage.network->named_parameters();
    for (TensorView& view : weight_views(stage))
      add(stage, std::move(view), parameters, stage.group->parameters());
  }
  void add_buffers(const mesh::Stage& stage) {
    const auto buffers = stage.network->named_buffers();
    for (TensorView& view : buffer_views(*stage.network)) add(stage, std::move(view), buffers, nullptr);
  }
  void add_optimizer(const mesh::Stage& stage) {
    const auto states = stage.group->state_names();
    const auto& entries = stage.group->layout().entries();
    for (std::size_t s = 0; s < states.size(); ++s)
      for (std::size_t i = 0; i < entries.size(); ++i)
        own_.all.push_back({.view = {.name = "optimizer." + states[s] + "." + entries[i].name,
                                     .type = ElementType::kFloat32,
                                     .shape = entries[i].shape,
                                     .data = reinterpret_cast<const std::byte*>(stage.group->state(int(s)) +
                                                                                entries[i].offset),
                                     .done = done_with(stage)},
                            .slice = stage.slices[i],
                            .whole = stage.outline->parameters[i].shape,
                            .ranges = ranges(stage, entries[i].offset, entries[i].count)});
  }
  void end_weights() { own_.weights = own_.all.size(); }
  OwnTensors take() { return std::move(own_); }

 private:
  template <typename Tensors>
  void add(const mesh::Stage& stage, TensorView view, const Tensors& tensors, const float* arena) {
    const std::vector<std::string>& tied = stage.outline->tied;
    if (purpose_ == Purpose::kSave && std::ranges::find(tied, view.name) != tied.end()) return;
    const model::SlicedTensor sliced = stage.network->sliced(tensors[view.name]);
    const std::int64_t count = element_count(view.shape);
    const auto* data = reinterpret_cast<const float*>(view.data);
    const bool in_arena = arena != nullptr && data >= arena && data < arena + stage.group->layout().size();
    std::vector<Range> kept{{0, count}};
    if (in_arena)
      kept = ranges(stage, std::size_t(data - arena), std::size_t(count));
    else if (purpose_ == Purpose::kSave && !is_first_)
      kept.clear();
    view.name = kModelPrefix + view.name;
    own_.all.push_back({std::move(view), sliced.slice, sliced.whole, std::move(kept)});
  }

  std::vector<Range> ranges(const mesh::Stage& stage, std::size_t offset, std::size_t count) const {
    if (!stage.group->gathers_between_hosts() || (count == 0 && is_first_)) return {{0, std::int64_t(count)}};
    std::vector<Range> found;
    for (const compute::Span& span : stage.group->host_spans()) {
      const std::size_t begin = std::max(span.begin, offset), end = std::min(span.end, offset + count);
      if (begin < end) found.push_back({std::int64_t(begin - offset), std::int64_t(end - begin)});
    }
    return found;
  }

  bool is_first_;
  Purpose purpose_;
  OwnTensors own_;
};

TensorView elements_of(const OwnTensor& own, const Range& range) {
  TensorView view = own.view;
  view.data += element_size(view.type) * std::size_t(range.first);
  view.shape = {range.count};
  return view;
}

}  // namespace

OwnTensors own_tensors(std::span<const mesh::Stage> stages, const World& peers, Purpose purpose) {
  Collecting collecting(peers, purpose);
  for (const mesh::Stage& stage : stages) collecting.add_weights(stage);
  collecting.end_weights();
  for (const mesh::Stage& stage : stages) collecting.add_buffers(stage);
  for (const mesh::Stage& stage : stages) collecting.add_optimizer(stage);
  return collecting.take();
}

std::vector<TensorView> pieces_to_save(const OwnTensors& own, const World* tensor_group,
                                       std::size_t& weights) {
  std::vector<TensorView> pieces;
  std::vector<std::int64_t> bytes(tensor_group ? std::size_t(tensor_group->size()) : 1);
  for (std::size_t i = 0; i < own.all.size(); ++i) {
    if (i == own.weights) weights = pieces.size();
    const OwnTensor& tensor = own.all[i];
    if (tensor_group != nullptr && tensor.slice.is_whole()) {
      const auto owner = std::ranges::min_element(bytes);
      *owner += std::int64_t(tensor.view.byte_count());
      if (owner - bytes.begin() != tensor_group->rank()) continue;
    }
    for (const Range& range : tensor.ranges)
      pieces.push_back(checkpoint::piece_view(
          {.tensor = tensor.view.name, .shape = tensor.whole, .slice = tensor.slice, .first = range.first},
          elements_of(tensor, range)));
  }
  if (own.weights == own.all.size()) weights = pieces.size();
  return pieces;
}

void load_tensors(const OwnTensors& own, const checkpoint::TensorIndex& from) {
  for (const OwnTensor& tensor : own.all)
    require_same(from, from.tensor(tensor.view.name), tensor.view.type, tensor.whole);
  for (const OwnTensor& tensor : own.all)
    for (const Range& range : tensor.ranges)
      checkpoint::read_slice(from.tensor(tensor.view.name), tensor.slice, range,
                             const_cast<std::byte*>(elements_of(tensor, range).data));
}

}  // namespace distbelief::run
