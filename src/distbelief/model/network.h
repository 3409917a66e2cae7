#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "distbelief/model/tensor_group.h"

namespace distbelief::model {

// A parameter or buffer of which this process holds a slice.
struct SlicedTensor {
  torch::Tensor tensor;
  Slice slice;
  Shape whole;  // the logical tensor's
};

// A part of a network that runs as a whole: takes the activations before it, gives those after it. It may be
// the first of its process, so it leaves its input as it is.
class Block : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor input) = 0;
  // Parameters that it reads and another block of the same network holds.
  virtual std::vector<torch::Tensor> borrowed() const { return {}; }
  const std::vector<SlicedTensor>& slices() const { return slices_; }

 protected:
  // For the constructor, which makes tensors whole, so that they begin as on one worker: keeps a slice of one
  // and forgets the rest. `dimension` is the one that gets smaller.
  void keep_slice(torch::Tensor tensor, int dimension, const Slice& slice);
  void keep_slice(const torch::Tensor& tensor, int dimension, SliceRange range) {
    keep_slice(tensor, dimension, slice_of(tensor.sizes().vec(), dimension, range));
  }

 private:
  std::vector<SlicedTensor> slices_;
};

// Told when a block is about to run and when it has run; gives what goes on in place of what it got. Runs on
// the thread that runs the network.
class BlockWatch {
 public:
  virtual ~BlockWatch() = default;
  virtual torch::Tensor enter(int block, torch::Tensor input) = 0;
  virtual torch::Tensor leave(int block, torch::Tensor output) = 0;
};

// A block that is a plain list of layers, under their own names.
class LayerBlock final : public Block {
 public:
  explicit LayerBlock(torch::nn::Sequential layers);
  torch::Tensor forward(torch::Tensor input) override { return layers_->forward(std::move(input)); }

 private:
  torch::nn::Sequential layers_;
};

// What a block may look at while it is made.
struct BlockSite {
  const torch::nn::Module& network;  // the blocks before it that this process holds
  std::uint64_t seed = 0;            // of the whole network
  TensorGroup* group = nullptr;      // with whom it computes its layers; null: alone
};

// How one block is made. Each draws its initial weights from a seed of its own, so a process can make those
// that it holds and no others.
struct BlockRecipe {
  std::string
      path;  // of the module that the block's layers stand in: "layers", "blocks.0"; empty: the network
  std::function<std::shared_ptr<Block>(const BlockSite&)> make;
  torch::Device device = torch::kCPU;  // where it computes; it is made on the host and moved
};
using Blueprint = std::vector<BlockRecipe>;

// Has all blocks compute on one device.
void compute_on(const torch::Device& device, Blueprint& blueprint);

// A run of blocks of a blueprint: [begin, end).
struct BlockRange {
  int begin = 0;
  int end = 0;
  int size() const { return end - begin; }
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

// Seeds torch's default generator for the initial weights of a block.
void seed_block(std::uint64_t seed, int block);

// A network, or the run of its blocks that a process holds. Forward takes a batch of inputs (or what the
// block before gave), and gives logits: [batch, classes], or [batch * length, vocabulary] for tokens (or what
// the next block takes). Parameters and buffers are torch's own registrations; their names do not depend on
// which blocks are held. Each block draws its randomness from a stream of its own (model/random.h).
class Network final : public torch::nn::Module {
 public:
  // Reseeds torch's default generator. `group`, which outlives it, may be null. `made` is called after each
  // block, with its number: who moves its parameters elsewhere needs memory for one block at a time.
  using Made = std::function<void(Network&, int block)>;
  Network(const Blueprint& blueprint, BlockRange range, std::uint64_t seed, TensorGroup* group = nullptr,
          const Made& made = {});

  torch::Tensor forward(torch::Tensor input);
  // One block; `block` is its number in the whole network.
  torch::Tensor forward(int block, torch::Tensor input);
  Block& block(int block) { return *blocks_[std::size_t(block - range_.begin)]; }
  const BlockRange& range() const { return range_; }
  const torch::Device& device() const { return device_; }  // where its parameters are and its input belongs
  // What this process has of a parameter or buffer; a tensor that is not sliced is its own whole.
  SlicedTensor sliced(const torch::Tensor& tensor) const;
  bool is_sliced() const;
  // Borrowed, until another is given or null.
  void watch(BlockWatch* watch) { watch_ = watch; }

 private:
  void hold(const std::string& path, Block& block);

  BlockRange range_;
  torch::Device device_ = torch::kCPU;
  BlockWatch* watch_ = nullptr;
  std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace distbelief::model
