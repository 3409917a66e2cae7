#include "distbelief/mesh/slice_update.h"

#include <cstring>

#include "distbelief/base/vector.h"
#include "distbelief/compute/kernels.h"

namespace distbelief::mesh {

using compute::kBlock;
using compute::Segment;

namespace {

enum NormArray : int { kGradientNorms = 0, kParameterNorms = 1, kDirectionNorms = 2 };

}  // namespace

SliceUpdate::SliceUpdate(Options options)
    : options_(std::move(options)),
      layerwise_(dynamic_cast<const compute::LayerwiseOptimizer*>(options_.optimizer)),
      states_(options_.optimizer->state_names().size()),
      trust_(options_.layout->entries().size(), 1.0),
      counts_(trust_.size()),
      scratch_(kBlock) {
  options_.lr_factors.resize(counts_.size(), 1.0);
}

void SliceUpdate::begin_step(std::int64_t round, const StepPlan& plan) {
  round_ = round;
  lr_ = plan.lr;
  factor_ = 1;
}

const float* SliceUpdate::scaled(const float* gradients, std::size_t count) {
  if (factor_ == 1) return gradients;
  std::memcpy(scratch_.data(), gradients, count * sizeof(float));
  scale(scratch_.data(), factor_, count);
  return scratch_.data();
}

void SliceUpdate::update_block(std::size_t begin, const float* gradients) {
  gradients = scaled(gradients, kBlock);
  const std::size_t block = begin / kBlock;
  for (std::size_t i = options_.layout->first_segment(block); i < options_.layout->first_segment(block + 1);
       ++i) {
    const Segment& segment = options_.layout->segments()[i];
    if (touched(segment.parameter))
      options_.optimizer->update(range_of(segment, gradients + (segment.span.begin - begin)));
  }
}

compute::UpdateRange SliceUpdate::range_of(const Segment& segment, const float* gradients) const {
  compute::UpdateRange range;
  range.parameters = options_.state->parameters() + segment.span.begin;
  range.gradients = gradients;
  for (std::size_t i = 0; i < states_; ++i)
    range.states[i] = options_.state->state(int(i)) + segment.span.begin;
  range.count = segment.span.size();
  range.lr = lr_ * options_.lr_factors[std::size_t(segment.parameter)];
  range.step = counts_[std::size_t(segment.parameter)] + 1;
  range.trust = trust_[std::size_t(segment.parameter)];
  return range;
}

// A parameter without a gradient from any lane keeps its value, as in torch.
bool SliceUpdate::touched(int parameter) const {
  for (int c = 0; c < options_.carriers; ++c)
    if (options_.state->touched(c, round_)[parameter]) return true;
  return options_.hosts > 1 && options_.state->host_touched(round_)[parameter];
}

// Calls visit(index, segment, its sums).
template <typename Visit>
void SliceUpdate::for_each_segment(std::span<const SummedSlice> slices, const Visit& visit) const {
  for (const SummedSlice& slice : slices) {
    const std::size_t end = options_.layout->first_segment(slice.span.end / kBlock);
    for (std::size_t i = options_.layout->first_segment(slice.span.begin / kBlock); i < end; ++i) {
      const Segment& segment = options_.layout->segments()[i];
      visit(i, segment, slice.sums + (segment.span.begin - slice.span.begin));
    }
  }
}

void SliceUpdate::measure_gradients(std::span<const SummedSlice> slices) {
  for_each_segment(slices, [&](std::size_t i, const Segment& segment, const float* sums) {
    options_.state->norms(kGradientNorms)[i] = compute::sum_of_squares(sums, segment.span.size());
  });
}

std::vector<double> SliceUpdate::add_up_gradients() const {
  std::vector<double> norms(trust_.size());
  for (std::size_t i = 0; i < options_.layout->segments().size(); ++i) {
    const int parameter = options_.layout->segments()[i].parameter;
    if (touched(parameter)) norms[std::size_t(parameter)] += options_.state->norms(kGradientNorms)[i];
  }
  return norms;
}

void SliceUpdate::measure_layers(std::span<const SummedSlice> slices) {
  for_each_segment(slices, [&](std::size_t i, const Segment& segment, const float* sums) {
    if (!touched(segment.parameter)) return;
    const compute::Norms norms = layerwise_->measure(range_of(segment, scaled(sums, segment.span.size())));
    options_.state->norms(kParameterNorms)[i] = norms.parameters;
    options_.state->norms(kDirectionNorms)[i] = norms.direction;
  });
}

void SliceUpdate::add_up_layers() {
  std::vector<double> parameters(trust_.size()), directions(trust_.size());
  for (std::size_t i = 0; i < options_.layout->segments().size(); ++i) {
    const auto p = std::size_t(options_.layout->segments()[i].parameter);
    parameters[p] += options_.state->norms(kParameterNorms)[i];
    directions[p] += options_.state->norms(kDirectionNorms)[i];
  }
  if (options_.join_layers) {
    options_.join_layers(parameters);
    options_.join_layers(directions);
  }
  for (std::size_t p = 0; p < trust_.size(); ++p)
    trust_[p] = layerwise_->trust({parameters[p], directions[p]});
}

void SliceUpdate::end_step() {
  for (std::size_t p = 0; p < counts_.size(); ++p)
    if (touched(int(p))) ++counts_[p];
}

}  // namespace distbelief::mesh
