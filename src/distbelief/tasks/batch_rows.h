#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "distbelief/tasks/row_source.h"

namespace distbelief::tasks {

// The distinct rows of one table that a batch uses: a leaf tensor whose gradient goes back to the table. It
// is in host memory, where the table's rows come from; autograd brings the gradient there.
struct BatchRows {
  int table = 0;
  std::vector<std::uint64_t> ids{};
  torch::Tensor values{};  // [ids, width]
};

// Returns the rows of `ids` (int64, any shape, 0 and up) as [shape of ids, width] and appends the pulled rows
// to `rows`. They require gradients when torch's grad mode is on. Without a source, rows have their first
// values.
torch::Tensor gather_rows(RowSource* source, int table, const comm::TableSpec& spec, const torch::Tensor& ids,
                          std::vector<BatchRows>& rows);

// Collects the gradients of rows from the lanes of a step and pushes them to the servers. Used by one thread.
class RowGradients {
 public:
  // Call after backward.
  void add(const std::vector<BatchRows>& rows);
  // Pushes the gradients of each of the task's tables, even if there are none, so that the servers know that
  // the step is done.
  void push(RowLink& link, int tables, std::int64_t step, double lr);

 private:
  struct Collected {
    std::vector<torch::Tensor> ids{}, gradients{};
  };
  std::vector<Collected> tables_;
};

}  // namespace distbelief::tasks
