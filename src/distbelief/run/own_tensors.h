#pragma once

#include <span>
#include <string>
#include <vector>

#include "distbelief/checkpoint/tensor_index.h"
#include "distbelief/mesh/stage.h"

// What of a run's state lies in this process, under the names that checkpoints have: model.NAME of parameters
// and buffers, optimizer.STATE.NAME.
namespace distbelief::run {

// Its parameters where they live for good. Whoever reads them one after another has few of the pages that
// other workers keep in its own memory at a time, when parameters are shared out.
std::vector<checkpoint::TensorView> weight_views(const mesh::Stage& stage);
// What such a reader calls after each (TensorView::done); null: nothing.
using DoneWithTensor = void (*)(const checkpoint::TensorView& view);
DoneWithTensor done_with(const mesh::Stage& stage);

inline constexpr const char* kModelPrefix = "model.";

struct OwnTensor {
  checkpoint::TensorView view;  // shape and elements as they are here
  Slice slice;                  // which those of the whole tensor are
  Shape whole;
  // Of the elements here, those to save or load: all, or this host's where hosts share them out.
  std::vector<checkpoint::ElementRange> ranges;
};

struct OwnTensors {
  std::vector<OwnTensor> all;
  std::size_t weights = 0;  // the first so many are those that weights_sha256 is over
};

// What is saved: a tensor that stages share is left to the one that owns it, and what every host has to the
// first. What is loaded: all of it.
enum class Purpose { kSave, kLoad };
OwnTensors own_tensors(std::span<const mesh::Stage> stages, const World& peers, Purpose purpose);

// As a part of a checkpoint has them: whole tensors or pieces. Those that all of a tensor group have are
// dealt out, each to the one with the fewest bytes yet. Sets `weights` to how many of the first are such.
std::vector<checkpoint::TensorView> pieces_to_save(const OwnTensors& own, const World* tensor_group,
                                                   std::size_t& weights);

// Into where they live. Throws Error(kBadInput) with the first tensor that is missing or of another shape;
// then nothing is changed.
void load_tensors(const OwnTensors& own, const checkpoint::TensorIndex& from);

}  // namespace distbelief::run
