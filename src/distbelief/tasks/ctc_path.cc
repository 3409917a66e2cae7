#include "distbelief/tasks/ctc_path.h"

namespace distbelief::tasks {

std::vector<std::int64_t> labels_of(std::span<const std::int64_t> path) {
  std::vector<std::int64_t> labels;
  std::int64_t before = kBlank;
  for (const std::int64_t label : path) {
    if (label != kBlank && label != before) labels.push_back(label);
    before = label;
  }
  return labels;
}

}  // namespace distbelief::tasks
