#include "distbelief/mesh/tensor_sums.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "distbelief/model/device.h"
#include "distbelief/model/tensor_type.h"

namespace distbelief::mesh {
namespace {

constexpr std::size_t kPiece = std::size_t{2} << 20;  // bytes; fits into the writer's cache
constexpr int kSlots = 2;  // a part writes one piece while others still read the previous one

std::size_t signal_bytes(int parts) {
  return (std::size_t(2 * parts) * sizeof(comm::Signal) + 4095) / 4096 * 4096;
}

// A flat tensor over memory that it does not own.
torch::Tensor flat(void* data, std::size_t bytes, const torch::Tensor& like) {
  return model::borrow_host(data, {std::int64_t(bytes / like.element_size())}, like.scalar_type());
}

// Sums parts [first, first + count) in the tree of the collectives between hosts (base/tree.h).
template <typename Values>
torch::Tensor tree_of(int first, int count, const Values& values) {
  if (count == 1) return values(first);
  const int half = int(std::bit_floor(unsigned(count - 1)));
  return tree_of(first, half, values) + tree_of(first + half, count - half, values);
}

}  // namespace

std::size_t HostTensorGroup::bytes_needed(int parts) {
  return signal_bytes(parts) + std::size_t(parts) * kSlots * kPiece;
}

HostTensorGroup::HostTensorGroup(World& group, const comm::Waiter& waiter, Input input)
    : TensorGroup(group.rank(), group.size(), input),
      group_(group),
      waiter_(waiter),
      segment_(
          comm::SharedSegment::map_together(group.host_group().transport(), bytes_needed(group.size()))) {}

std::byte* HostTensorGroup::slot(int part, std::uint64_t serial) const {
  return segment_.data() + signal_bytes(parts()) + (std::size_t(part) * kSlots + serial % kSlots) * kPiece;
}

std::size_t HostTensorGroup::pieces() const { return (values_.nbytes() + kPiece - 1) / kPiece; }

void HostTensorGroup::start_sum(const torch::Tensor& values) {
  device_ = values.device();
  values_ = model::on_host(values);
  posted_ = 0;
  if (pieces() > 0) post(0);
}

void HostTensorGroup::post(std::size_t piece) {
  const std::uint64_t serial = serial_ + piece;
  for (int p = 0; p < parts(); ++p)  // waits until all parts have read the slot
    if (p != part() && serial >= kSlots)
      waiter_.wait(left(p), std::uint32_t(serial - kSlots + 1),
                   {.rank = group_.name(p), .operation = "take part in a layer"});
  const std::size_t at = piece * kPiece;
  std::memcpy(slot(part(), serial), model::host_bytes(values_).data() + at,
              std::min(kPiece, values_.nbytes() - at));
  arrived(part()).raise(std::uint32_t(serial + 1));
  posted_ = piece + 1;
}

void HostTensorGroup::add_up(std::size_t piece, torch::Tensor& sum) {
  const std::uint64_t serial = serial_ + piece;
  const std::size_t at = piece * kPiece, bytes = std::min(kPiece, values_.nbytes() - at);
  torch::Tensor out = flat(model::host_bytes(sum).data() + at, bytes, values_);
  for (int p = 0; p < parts(); ++p)
    if (p != part())
      waiter_.wait(arrived(p), std::uint32_t(serial + 1),
                   {.rank = group_.name(p), .operation = "take part in a layer"});
  const int half = int(std::bit_floor(unsigned(parts() - 1)));
  const auto values = [&](int p) { return flat(slot(p, serial), bytes, values_); };
  torch::add_out(out, tree_of(0, half, values), tree_of(half, parts() - half, values));
  left(part()).raise(std::uint32_t(serial + 1));
}

torch::Tensor HostTensorGroup::finish_sum() {
  const torch::NoGradGuard no_grad;
  torch::Tensor sum = torch::empty(values_.sizes(), values_.options());
  const std::size_t all = pieces();
  for (std::size_t piece = 0; piece < all; ++piece) {
    if (posted_ == piece + 1 && piece + 1 < all) post(piece + 1);
    add_up(piece, sum);
  }
  serial_ += all;
  values_.reset();
  return model::on_device(sum, device_);
}

torch::Tensor WorldTensorGroup::finish_sum() {
  const torch::Device device = values_.device();
  torch::Tensor sum = model::on_device(values_.detach().clone(torch::MemoryFormat::Contiguous), torch::kCPU);
  group_.communicator().allreduce(
      {model::host_bytes(sum).data(), std::size_t(sum.numel()), model::element_type(sum, "an activation")},
      comm::ReduceOp::kSum);
  values_.reset();
  return model::on_device(sum, device);
}

std::unique_ptr<model::TensorGroup> make_tensor_group(World& group, World& world,
                                                      model::TensorGroup::Input input) {
  if (group.hosts() > 1) return std::make_unique<WorldTensorGroup>(group, input);
  return std::make_unique<HostTensorGroup>(group, world.host_group().domain().waiter(), input);
}

}  // namespace distbelief::mesh
