#pragma once

#include <span>
#include <string>
#include <vector>

#include "distbelief/checkpoint/tensor_index.h"
#include "distbelief/mesh/stage.h"

// Checkpoint tensors that this process owns, under their names in checkpoints: model.NAME for parameters and
// buffers, optimizer.STATE.NAME.
namespace distbelief::run {

// The stage's parameters in the arena. When parameters are shared out, read them one after another and call
// done_with(), so that few pages of other workers are resident at a time.
std::vector<checkpoint::TensorView> weight_views(const mesh::Stage& stage);
// The function to call after reading each tensor (TensorView::done); null: none.
using DoneWithTensor = void (*)(const checkpoint::TensorView& view);
DoneWithTensor done_with(const mesh::Stage& stage);

inline constexpr const char* kModelPrefix = "model.";

struct OwnTensor {
  checkpoint::TensorView view;  // shape and elements in this process
  Slice slice;                  // the part of the whole tensor that these elements are
  Shape whole;
  // The elements to save or load: all, or this host's when hosts share them out.
  std::vector<checkpoint::ElementRange> ranges;
};

struct OwnTensors {
  std::vector<OwnTensor> all;
  std::size_t weights = 0;  // number of leading entries that weights_sha256 covers
};

// kSave: leaves a tensor that stages share to its owner, and a tensor that every host has to the first host.
// kLoad: takes all tensors.
enum class Purpose { kSave, kLoad };
OwnTensors own_tensors(std::span<const mesh::Stage> stages, const World& peers, Purpose purpose);

// The tensors of a part of a checkpoint: whole tensors or pieces. Tensors that a whole tensor group has are
// dealt out, each to the worker with the fewest bytes so far. Sets `weights` to the number of leading views
// that are weights.
std::vector<checkpoint::TensorView> pieces_to_save(const OwnTensors& own, const World* tensor_group,
                                                   std::size_t& weights);

// Loads tensors into their memory. Throws Error(kBadInput) with the first tensor that is missing or has
// another shape; then nothing is changed.
void load_tensors(const OwnTensors& own, const checkpoint::TensorIndex& from);

}  // namespace distbelief::run
