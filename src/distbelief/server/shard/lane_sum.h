#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "distbelief/base/tree.h"

// How a step's gradients of several replicas become one. Pure.
namespace distbelief::server {

// What one replica gives: the sum over its lanes, which are one node of the tree.
struct LanePart {
  TreeNode lanes;
  const float* values = nullptr;
  std::int64_t samples = 0;
};

// Whether [begin, end) is a node of the tree over so many lanes.
bool is_node(std::int64_t lanes, TreeNode part);

// The sum over `count` values, in the one order that is fixed by the lanes: the bits are those that one
// worker with all lanes would get. When lanes are missing, what is there is added in their order and stands
// for all: it is scaled by step_samples over its own. Parts in any order, not overlapping. Gives `sum`, or
// the values of a single part.
const float* add_up(std::int64_t lanes, std::vector<LanePart> parts, std::int64_t step_samples,
                    std::size_t count, std::vector<float>& sum);

}  // namespace distbelief::server
