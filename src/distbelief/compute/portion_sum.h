#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "distbelief/base/tree.h"

namespace distbelief::compute {

// The sum of one slice's gradients over the portions of a batch, which come in any order, each once. They are
// added along the tree over the portions: the sum has the same bits whoever computed which portion and
// whenever it came. What waits for its sibling is kept, about as many arrays as there are replicas. Not
// thread safe.
class PortionSum {
 public:
  PortionSum(std::int64_t portions, std::size_t count);

  bool has(std::int64_t portion) const { return present_[std::size_t(portion)]; }
  // Adds weight * values. `portion` is not in yet.
  void add(std::int64_t portion, double weight, double loss, const float* values);
  bool is_complete() const { return missing_ == 0; }
  const float* sum() const { return waiting_.begin()->second.data(); }  // once complete
  double loss() const;  // the sum of weight * loss, in the order of portions
  void reset();

  // Arrays that are kept at a time: what waits, and memory for more, of which reset() leaves a few.
  static constexpr std::size_t kSpare = 8;
  std::size_t arrays() const { return waiting_.size() + spare_.size(); }
  std::size_t arrays_with_another() const { return arrays() + (spare_.empty() ? 1 : 0); }

  std::int64_t portions() const { return std::int64_t(present_.size()); }
  std::size_t count() const { return count_; }
  // For who is to go on with it.
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
  std::vector<std::vector<float>> spare_;                    // memory for more
};

}  // namespace distbelief::compute
