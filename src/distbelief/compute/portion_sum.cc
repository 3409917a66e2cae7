#include "distbelief/compute/portion_sum.h"

#include <algorithm>
#include <optional>

#include "distbelief/base/error.h"
#include "distbelief/base/vector.h"

namespace distbelief::compute {
namespace {

// The other child of its parent in the tree over [0, portions) (base/tree.h); nothing for the root.
std::optional<TreeNode> sibling_of(std::int64_t portions, TreeNode node) {
  TreeNode parent{0, portions};
  while (parent.end - parent.begin > 1) {
    std::int64_t half = 1;
    while (half * 2 < parent.end - parent.begin) half *= 2;
    const TreeNode left{parent.begin, parent.begin + half}, right{parent.begin + half, parent.end};
    if (node == left) return right;
    if (node == right) return left;
    parent = node.begin < left.end ? left : right;
  }
  return std::nullopt;
}

}  // namespace

PortionSum::PortionSum(std::int64_t portions, std::size_t count)
    : count_(count),
      missing_(portions),
      present_(std::size_t(portions)),
      losses_(std::size_t(portions)) {}

void PortionSum::add(std::int64_t portion, double weight, double loss, const float* values) {
  DISTBELIEF_INVARIANT(!has(portion));
  present_[std::size_t(portion)] = true;
  losses_[std::size_t(portion)] = weight * loss;
  --missing_;
  std::vector<float> sum;
  if (!spare_.empty()) {
    sum = std::move(spare_.back());
    spare_.pop_back();
  }
  sum.assign(values, values + count_);
  scale(sum.data(), float(weight), count_);
  TreeNode node{portion, portion + 1};
  while (const auto sibling = sibling_of(portions(), node)) {
    const auto found = waiting_.find(*sibling);
    if (found == waiting_.end() || found->first != *sibling) break;
    distbelief::add(sum.data(), sum.data(), found->second.data(), count_);
    node = {std::min(node.begin, sibling->begin), std::max(node.end, sibling->end)};
    spare_.push_back(std::move(found->second));
    waiting_.erase(found);
  }
  waiting_.emplace(node, std::move(sum));
}

double PortionSum::loss() const {
  double sum = 0;
  for (const double loss : losses_) sum += loss;
  return sum;
}

void PortionSum::reset() {
  for (auto& [node, values] : waiting_) spare_.push_back(std::move(values));
  waiting_.clear();
  if (spare_.size() > kSpare) spare_.resize(kSpare);
  missing_ = portions();
  std::fill(present_.begin(), present_.end(), false);
  std::fill(losses_.begin(), losses_.end(), 0.0);
}

std::vector<PortionSum::Part> PortionSum::parts() const {
  std::vector<Part> parts;
  for (const auto& [node, values] : waiting_) parts.push_back({.portions = node, .values = values});
  return parts;
}

void PortionSum::install(std::vector<Part> parts, std::vector<double> losses) {
  reset();
  losses_ = std::move(losses);
  losses_.resize(present_.size());
  for (Part& part : parts) {
    for (std::int64_t i = part.portions.begin; i < part.portions.end; ++i) present_[std::size_t(i)] = true;
    missing_ -= part.portions.end - part.portions.begin;
    waiting_.emplace(part.portions, std::move(part.values));
  }
}

}  // namespace distbelief::compute
