#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "distbelief/base/tree.h"

namespace distbelief::compute {

// The sum of one slice's gradients over the portions of a batch. Portions arrive in any order, each once.
// They are added along the tree over the portions, so the sum has the same bits for any arrival order and any
// assignment of portions to replicas. Keeps partial sums whose siblings are missing, about as many arrays as
// there are replicas. Not thread-safe.
class PortionSum {
 public:
  PortionSum(std::int64_t portions, std::size_t count);

  bool has(std::int64_t portion) const { return present_[std::size_t(portion)]; }
  // Adds weight * values. `portion` must be new.
  void add(std::int64_t portion, double weight, double loss, const float* values);
  bool is_complete() const { return missing_ == 0; }
  const float* sum() const { return waiting_.begin()->second.data(); }  // only once complete
  double loss() const;  // the sum of weight * loss, in the order of portions
  void reset();

  // Arrays held at a time: waiting sums, and spare memory, of which reset() keeps at most kSpare.
  static constexpr std::size_t kSpare = 8;
  std::size_t arrays() const { return waiting_.size() + spare_.size(); }
  std::size_t arrays_with_another() const { return arrays() + (spare_.empty() ? 1 : 0); }

  std::int64_t portions() const { return std::int64_t(present_.size()); }
  std::size_t count() const { return count_; }
  // State to transfer to another process.
  struct Part {
    TreeNode portions{};
    std::vector<float> values{};
  };
  std::vector<Part> parts() const;
  const std::vector<double>& losses() const { return losses_; }  // weighted, by portion
  void install(std::vector<Part> parts, std::vector<double> losses);

 private:
  struct Earlier {
    bool operator()(const TreeNode& left, const TreeNode& right) const { return left.begin < right.begin; }
  };

  std::size_t count_;
  std::int64_t missing_;
  std::vector<bool> present_;
  std::vector<double> losses_;
  std::map<TreeNode, std::vector<float>, Earlier> waiting_;  // sums whose siblings have not come
  std::vector<std::vector<float>> spare_;                    // reused memory
};

}  // namespace distbelief::compute
