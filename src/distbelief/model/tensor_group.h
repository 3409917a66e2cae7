#pragma once

#include <torch/torch.h>

#include "distbelief/base/slice.h"

namespace distbelief::model {

// The workers that compute a network's layers together, each with slices of the weights (Shoeybi et al.,
// "Megatron-LM", 2019). All run the same blocks on the same lanes in the same order. Used by one thread.
class TensorGroup {
 public:
  // The input of each part: whole samples, or its own features of them.
  enum class Input { kWhole, kSliced };
  TensorGroup(int part, int parts, Input input = Input::kWhole) : part_(part), parts_(parts), input_(input) {}
  virtual ~TensorGroup() = default;
  TensorGroup(const TensorGroup&) = delete;
  TensorGroup& operator=(const TensorGroup&) = delete;

  int part() const { return part_; }
  int parts() const { return parts_; }
  Input input() const { return input_; }

  // Sums `values` over all parts; they have the same shape everywhere, and every part gets the same bits. Two
  // halves allow work while the other parts' values arrive. `values` must not change until finish_sum(). One
  // sum at a time.
  virtual void start_sum(const torch::Tensor& values) = 0;
  virtual torch::Tensor finish_sum() = 0;

  torch::Tensor sum(const torch::Tensor& values) {
    start_sum(values);
    return finish_sum();
  }

 private:
  int part_;
  int parts_;
  Input input_;
};

// The functions below compute the same as on one worker, up to the order of additions. "Whole" values are
// equal on all parts, "partial" values must be added up, "sliced" values lie side by side.

// Whole in, whole out; for the input of sliced layers, each of which returns a partial gradient.
torch::Tensor enter(TensorGroup& group, const torch::Tensor& input);
// Partial in, whole out.
torch::Tensor leave(TensorGroup& group, const torch::Tensor& input);
// Sliced along a dimension in, whole out; `whole` is the dimension's full size.
enum class UsedBy { kWholeLayers, kSlicedLayers };  // consumer of the result
torch::Tensor gather(TensorGroup& group, const torch::Tensor& input, int dimension, std::int64_t whole,
                     UsedBy used_by);

// A linear layer with sliced outputs: the weight is [outputs / parts, inputs]. Whole in, sliced out. Sums the
// input's gradient while the weight's gradient is computed.
torch::Tensor column_linear(TensorGroup& group, const torch::Tensor& input, const torch::Tensor& weight,
                            const torch::Tensor& bias);
// A linear layer with sliced inputs: the weight is [outputs, inputs / parts], the bias whole. Sliced in,
// whole out.
torch::Tensor row_linear(TensorGroup& group, const torch::Tensor& input, const torch::Tensor& weight,
                         const torch::Tensor& bias);
// Looks up rows of a table that is sliced by rows. Whole in, whole out.
torch::Tensor sliced_embedding(TensorGroup& group, const torch::Tensor& ids, const torch::Tensor& table,
                               SliceRange rows);
// Cross entropy of logits [n, classes / parts], summed over n; `classes` is the position of the slice.
torch::Tensor sliced_cross_entropy(TensorGroup& group, const torch::Tensor& logits,
                                   const torch::Tensor& target, const Slice& classes, double label_smoothing);

}  // namespace distbelief::model
