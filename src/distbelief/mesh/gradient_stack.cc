#include "distbelief/mesh/gradient_stack.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "distbelief/base/prefetch.h"
#include "distbelief/base/vector.h"

namespace distbelief::mesh {

using compute::kBlock;

GradientStack::GradientStack(Options options)
    : options_(std::move(options)),
      buckets_(int(options_.layout->buckets().size())),
      pending_(std::size_t(buckets_)) {
  std::size_t most = 1;
  for (const HostNode& node : host().nodes) most = std::max(most, node.sources.size());
  scratch_.resize(kBlock * most);
}

void GradientStack::begin_step() {
  filled_ = 0;
  for (std::size_t b = 0; b < pending_.size(); ++b)
    pending_[b] = int(options_.layout->buckets()[b].parameters.size());
}

void GradientStack::begin_lane(std::int64_t lane) {
  lane_ = lane;
  const Carrier& me = carrier();
  slot_ = 0;
  for (std::int64_t before = me.first_lane; before < lane; ++before)
    slot_ += 1 - me.program.merges[std::size_t(before - me.first_lane)];
  merges_ = me.program.merges[std::size_t(lane - me.first_lane)];
}

void GradientStack::put(int parameter, const float* values) {
  store(parameter, values);
  if (lane_ + 1 != carrier().end_lane) return;
  if (--pending_[std::size_t(options_.layout->bucket_of(parameter))] > 0) return;
  const int before = filled_;
  while (filled_ < buckets_ && pending_[std::size_t(filled_)] == 0) ++filled_;
  if (filled_ > before) options_.filled(filled_);
}

float* GradientStack::buffer(int slot, int parameter) const {
  return options_.state->gradients(options_.carrier, slot) +
         options_.layout->entries()[std::size_t(parameter)].offset;
}

float* GradientStack::place(int parameter) { return merges_ == 0 ? buffer(slot_, parameter) : nullptr; }

void GradientStack::store(int parameter, const float* values) {
  const compute::Entry& entry = options_.layout->entries()[std::size_t(parameter)];
  if (merges_ == 0) {
    float* const target = buffer(slot_, parameter);
    if (values == nullptr)
      std::memset(target, 0, entry.count * sizeof(float));
    else if (values != target)
      std::memcpy(target, values, entry.count * sizeof(float));
    return;
  }
  static constexpr std::array<float, kBlock> kZeros{};
  for (std::size_t at = 0; at < entry.count; at += kBlock) {
    const std::size_t count = std::min(kBlock, entry.count - at);
    const float* right = values != nullptr ? values + at : kZeros.data();
    for (int merge = 1; merge <= merges_; ++merge) {
      float* left = buffer(slot_ - merge, parameter) + at;
      float* out = merge == merges_ ? left : scratch_.data();
      add(out, left, right, count);
      right = out;
    }
  }
}

const float* GradientStack::sum(int node, std::size_t at) {
  const HostNode& made = host().nodes[std::size_t(node)];
  inputs_.resize(made.sources.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    inputs_[i] = options_.state->gradients(made.sources[i].carrier, made.sources[i].slot) + at;
  return tree_sum<float>(inputs_, made.merges, kBlock, scratch_.data());
}

void GradientStack::expect(int node, std::size_t at) const {
  for (const NodeSource& source : host().nodes[std::size_t(node)].sources)
    if (source.carrier != options_.carrier)
      prefetch(options_.state->gradients(source.carrier, source.slot) + at, kBlock * sizeof(float));
}

}  // namespace distbelief::mesh
