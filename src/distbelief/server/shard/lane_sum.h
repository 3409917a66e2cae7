#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "distbelief/base/tree.h"

// Sums a step's gradients of several replicas. Pure.
namespace distbelief::server {

// One replica's contribution: the sum over its lanes, which form one node of the tree.
struct LanePart {
  TreeNode lanes;
  const float* values = nullptr;
  std::int64_t samples = 0;
};

// Whether `part` is a node of the tree over this many lanes.
bool is_node(std::int64_t lanes, TreeNode part);

// Sums `count` values in the order that the lanes fix: the bits are those of one worker with all lanes. When
// lanes are missing, the parts are added in lane order and scaled by step_samples over their own samples, to
// stand for all. Parts in any order, not overlapping. Returns `sum`, or the values of a single part.
const float* add_up(std::int64_t lanes, std::vector<LanePart> parts, std::int64_t step_samples,
                    std::size_t count, std::vector<float>& sum);

}  // namespace distbelief::server
