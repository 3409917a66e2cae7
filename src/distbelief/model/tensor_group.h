#pragma once

#include <torch/torch.h>

#include "distbelief/base/slice.h"

namespace distbelief::model {

// The workers that compute a network's layers together, each with slices of their weights (Shoeybi et al.,
// "Megatron-LM", 2019). All of them run the same blocks on the same lanes in the same order. Used by one
// thread.
class TensorGroup {
 public:
  // What each part gets of a sample: all of it, or its own features (S3.12).
  enum class Input { kWhole, kSliced };
  TensorGroup(int part, int parts, Input input = Input::kWhole) : part_(part), parts_(parts), input_(input) {}
  virtual ~TensorGroup() = default;
  TensorGroup(const TensorGroup&) = delete;
  TensorGroup& operator=(const TensorGroup&) = delete;

  int part() const { return part_; }
  int parts() const { return parts_; }
  Input input() const { return input_; }

  // Adds up `values`, which all parts have in the same shape; every part gets the same bits. In two halves:
  // the work between them runs while the others arrive. `values` keep still until finish_sum(). One sum at a
  // time.
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

// What follows computes the same as on one worker, up to the order of additions. "Whole" values are the same
// on all parts, "partial" ones are to be added up, "sliced" ones lie side by side.

// Whole in, whole out; for what goes into sliced layers, each of which gives back a partial gradient.
torch::Tensor enter(TensorGroup& group, const torch::Tensor& input);
// Partial in, whole out.
torch::Tensor leave(TensorGroup& group, const torch::Tensor& input);
// Sliced along a dimension in, whole out; `whole` is its size.
enum class UsedBy { kWholeLayers, kSlicedLayers };  // what computes with the result
torch::Tensor gather(TensorGroup& group, const torch::Tensor& input, int dimension, std::int64_t whole,
                     UsedBy used_by);

// A linear layer whose outputs are sliced: the weight is [outputs / parts, inputs]. Whole in, sliced out. The
// gradient of the input is added up while that of the weight is computed.
torch::Tensor column_linear(TensorGroup& group, const torch::Tensor& input, const torch::Tensor& weight,
                            const torch::Tensor& bias);
// One whose inputs are sliced: the weight is [outputs, inputs / parts], the bias whole. Sliced in, whole out.
torch::Tensor row_linear(TensorGroup& group, const torch::Tensor& input, const torch::Tensor& weight,
                         const torch::Tensor& bias);
// Rows of a table that is sliced by rows. Whole in, whole out.
torch::Tensor sliced_embedding(TensorGroup& group, const torch::Tensor& ids, const torch::Tensor& table,
                               SliceRange rows);
// Cross entropy of logits [n, classes / parts], summed over n; `classes` is where the slice lies.
torch::Tensor sliced_cross_entropy(TensorGroup& group, const torch::Tensor& logits,
                                   const torch::Tensor& target, const Slice& classes, double label_smoothing);

}  // namespace distbelief::model
