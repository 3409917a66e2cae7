#include "distbelief/server/shard/lane_sum.h"

#include <algorithm>
#include <cstring>

#include "distbelief/base/vector.h"

namespace distbelief::server {

bool is_node(std::int64_t lanes, TreeNode part) {
  if (part.begin < 0 || part.begin >= part.end || part.end > lanes) return false;
  return tree_cover(lanes, part.begin, part.end).size() == 1;
}

const float* add_up(std::int64_t lanes, std::vector<LanePart> parts, std::int64_t step_samples,
                    std::size_t count, std::vector<float>& sum) {
  std::ranges::sort(parts, {}, [](const LanePart& part) { return part.lanes.begin; });
  std::vector<TreeNode> nodes;
  std::int64_t covered = 0, samples = 0;
  for (const LanePart& part : parts) {
    nodes.push_back(part.lanes);
    covered += part.lanes.end - part.lanes.begin;
    samples += part.samples;
  }
  const bool is_whole = covered == lanes;
  if (is_whole && parts.size() == 1) return parts[0].values;
  sum.resize(count);
  TreeProgram program = tree_program(lanes, nodes);
  if (!is_whole) {  // one after another
    program.merges.assign(parts.size(), 1);
    program.merges[0] = 0;
  }
  std::vector<float> scratch(std::max<std::size_t>(1, parts.size() - 1) * kSumBlock);
  std::vector<const float*> inputs(parts.size());
  for (std::size_t begin = 0; begin < count; begin += kSumBlock) {
    const std::size_t length = std::min(kSumBlock, count - begin);
    for (std::size_t i = 0; i < parts.size(); ++i) inputs[i] = parts[i].values + begin;
    const float* const block = tree_sum<float>(inputs, program.merges, length, scratch.data());
    std::memcpy(sum.data() + begin, block, length * sizeof(float));
  }
  if (!is_whole && samples > 0) scale(sum.data(), float(double(step_samples) / double(samples)), count);
  return sum.data();
}

}  // namespace distbelief::server
