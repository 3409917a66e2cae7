#include "distbelief/checkpoint/tensor_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "distbelief/base/error.h"

namespace distbelief::checkpoint {

TensorIndex::TensorIndex(std::filesystem::path origin, std::vector<TensorView> tensors)
    : origin_(std::move(origin)),
      tensors_(std::move(tensors)) {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const TensorView& a, const TensorView& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(tensors_.begin(), tensors_.end(),
                         [](const TensorView& a, const TensorView& b) { return a.name == b.name; });
  if (twice != tensors_.end()) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} has tensor '{}' in more than one file; each tensor belongs to one part",
                            origin_.string(), twice->name));
  }
}

const TensorView* TensorIndex::find(const std::string& name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorView& view, const std::string& key) { return view.name < key; });
  return found == tensors_.end() || found->name != name ? nullptr : &*found;
}

const TensorView& TensorIndex::tensor(const std::string& name) const {
  const TensorView* found = find(name);
  if (found == nullptr) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} has no tensor '{}' among its {}: it was written by another model or version",
                            origin_.string(), name, tensors_.size()));
  }
  return *found;
}

}  // namespace distbelief::checkpoint
