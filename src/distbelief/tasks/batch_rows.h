#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "distbelief/tasks/row_source.h"

namespace distbelief::tasks {

// Rows of one table that a batch touches, each once: a leaf, whose gradient goes back to the table. On the
// host, where the table's rows come from; autograd brings the gradient back there.
struct BatchRows {
  int table = 0;
  std::vector<std::uint64_t> ids{};
  torch::Tensor values{};  // [ids, width]
};

// The rows of `ids` (int64, of any shape, 0 and up): [shape of ids, width]. Adds what was pulled to `rows`;
// it remembers gradients where torch's mode says so. Without a source rows have their first values.
torch::Tensor gather_rows(RowSource* source, int table, const comm::TableSpec& spec, const torch::Tensor& ids,
                          std::vector<BatchRows>& rows);

// Gradients of the rows of a step's lanes on their way to the servers. Used by one thread.
class RowGradients {
 public:
  // After backward.
  void add(const std::vector<BatchRows>& rows);
  // Those of each of the task's tables, also when there are none: the servers then know that the step is
  // done.
  void push(RowLink& link, int tables, std::int64_t step, double lr);

 private:
  struct Collected {
    std::vector<torch::Tensor> ids{}, gradients{};
  };
  std::vector<Collected> tables_;
};

}  // namespace distbelief::tasks
