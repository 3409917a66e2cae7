#pragma once

#include <memory>
#include <optional>

#include "distbelief/comm/host/domain.h"
#include "distbelief/comm/host/segment.h"
#include "distbelief/comm/world.h"
#include "distbelief/model/tensor_group.h"

namespace distbelief::mesh {

// A tensor group whose workers share a host. Each worker copies its values piece by piece into a window that
// all of them read, and sums all parts in tree order. A sum costs one synchronization; the work between its
// two halves hides it.
class HostTensorGroup final : public model::TensorGroup {
 public:
  // Collective over `group`, which outlives this object. `waiter` belongs to the world whose abort ends the
  // waits.
  HostTensorGroup(World& group, const comm::Waiter& waiter, Input input);

  void start_sum(const torch::Tensor& values) override;
  torch::Tensor finish_sum() override;
  static std::size_t bytes_needed(int parts);

 private:
  void post(std::size_t piece);
  void add_up(std::size_t piece, torch::Tensor& sum);
  std::byte* slot(int part, std::uint64_t serial) const;
  comm::Signal& arrived(int part) const { return signals()[2 * part]; }
  comm::Signal& left(int part) const { return signals()[2 * part + 1]; }
  comm::Signal* signals() const { return reinterpret_cast<comm::Signal*>(segment_.data()); }
  std::size_t pieces() const;

  World& group_;
  const comm::Waiter& waiter_;
  comm::SharedSegment segment_;
  torch::Tensor values_;                // input of the running sum, in host memory
  torch::Device device_ = torch::kCPU;  // device of the input
  std::uint64_t serial_ = 0;            // pieces of all earlier sums
  std::size_t posted_ = 0;              // pieces of this sum
};

// A tensor group over several hosts.
class WorldTensorGroup final : public model::TensorGroup {
 public:
  WorldTensorGroup(World& group, Input input)
      : TensorGroup(group.rank(), group.size(), input),
        group_(group) {}
  void start_sum(const torch::Tensor& values) override { values_ = values; }
  torch::Tensor finish_sum() override;

 private:
  World& group_;
  torch::Tensor values_;
};

// Collective over `group`.
std::unique_ptr<model::TensorGroup> make_tensor_group(World& group, World& world,
                                                      model::TensorGroup::Input input);

}  // namespace distbelief::mesh
