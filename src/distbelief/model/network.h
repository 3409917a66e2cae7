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

// A part of a network that runs as a unit: takes the previous block's activations and returns its own. Must
// not modify its input, because it may be the first block of its process.
class Block : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor input) = 0;
  // Parameters that it reads but another block of the same network holds.
  virtual std::vector<torch::Tensor> borrowed() const { return {}; }
  const std::vector<SlicedTensor>& slices() const { return slices_; }

 protected:
  // For constructors, which first make whole tensors so that the initial values equal those of one worker:
  // keeps a slice of `tensor` and drops the rest. `dimension` is the one that shrinks.
  void keep_slice(torch::Tensor tensor, int dimension, const Slice& slice);
  void keep_slice(const torch::Tensor& tensor, int dimension, SliceRange range) {
    keep_slice(tensor, dimension, slice_of(tensor.sizes().vec(), dimension, range));
  }

 private:
  std::vector<SlicedTensor> slices_;
};

// Called before and after a block runs; its results replace the block's input and output. Runs on the thread
// that runs the network.
class BlockWatch {
 public:
  virtual ~BlockWatch() = default;
  virtual torch::Tensor enter(int block, torch::Tensor input) = 0;
  virtual torch::Tensor leave(int block, torch::Tensor output) = 0;
};

// A block that is a plain list of layers under their own names.
class LayerBlock final : public Block {
 public:
  explicit LayerBlock(torch::nn::Sequential layers);
  torch::Tensor forward(torch::Tensor input) override { return layers_->forward(std::move(input)); }

 private:
  torch::nn::Sequential layers_;
};

// Inputs for making a block.
struct BlockSite {
  const torch::nn::Module& network;  // holds the earlier blocks of this process
  std::uint64_t seed = 0;            // of the whole network
  TensorGroup* group = nullptr;      // computes the layers together; null: alone
};

// Makes one block. Each block draws its initial weights from its own seed, so a process can make only the
// blocks that it holds.
struct BlockRecipe {
  // Path of the module that holds the block's layers: "layers", "blocks.0"; empty: the network.
  std::string path;
  std::function<std::shared_ptr<Block>(const BlockSite&)> make;
  torch::Device device = torch::kCPU;  // where it computes; it is made on the host, then moved
};
using Blueprint = std::vector<BlockRecipe>;

// Sets one device for all blocks.
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

// A network, or the consecutive blocks of it that a process holds. Forward takes a batch of inputs (or the
// previous block's output) and returns logits: [batch, classes], or [batch * length, vocabulary] for tokens
// (or the next block's input). Parameters and buffers are torch's registrations, with the same names for any
// range of blocks. Each block draws its randomness from its own stream (model/random.h).
class Network final : public torch::nn::Module {
 public:
  // Reseeds torch's default generator. `group` must outlive the network and may be null. `made` is called
  // after each block with its number: a caller that moves the parameters elsewhere then needs memory for only
  // one block at a time.
  using Made = std::function<void(Network&, int block)>;
  Network(const Blueprint& blueprint, BlockRange range, std::uint64_t seed, TensorGroup* group = nullptr,
          const Made& made = {});

  torch::Tensor forward(torch::Tensor input);
  // Runs one block; `block` is its number in the whole network.
  torch::Tensor forward(int block, torch::Tensor input);
  Block& block(int block) { return *blocks_[std::size_t(block - range_.begin)]; }
  const BlockRange& range() const { return range_; }
  const torch::Device& device() const { return device_; }  // of its parameters and inputs
  // This process's slice of a parameter or buffer; an unsliced tensor is its own whole.
  SlicedTensor sliced(const torch::Tensor& tensor) const;
  bool is_sliced() const;
  // Borrowed until replaced; null ends it.
  void watch(BlockWatch* watch) { watch_ = watch; }

 private:
  void hold(const std::string& path, Block& block);

  BlockRange range_;
  torch::Device device_ = torch::kCPU;
  BlockWatch* watch_ = nullptr;
  std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace distbelief::model
