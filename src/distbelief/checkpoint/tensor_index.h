#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "distbelief/checkpoint/tensor_view.h"

namespace distbelief::checkpoint {

// Finds tensors of one or several files by name. Holds views only: the owner of the memory must outlive it.
// Immutable, so any thread may read.
class TensorIndex {
 public:
  TensorIndex() = default;
  // `origin` is their source, for messages. Throws Error(kBadInput) when two have the same name.
  TensorIndex(std::filesystem::path origin, std::vector<TensorView> tensors);

  const std::filesystem::path& origin() const { return origin_; }
  std::span<const TensorView> all() const { return tensors_; }  // by name
  bool has(const std::string& name) const { return find(name) != nullptr; }
  const TensorView& tensor(const std::string& name) const;  // throws Error(kBadInput)

 private:
  const TensorView* find(const std::string& name) const;

  std::filesystem::path origin_;
  std::vector<TensorView> tensors_;
};

}  // namespace distbelief::checkpoint
