#include "distbelief/comm/host/communicator.h"

#include <cstring>

#include "distbelief/base/tree.h"
#include "distbelief/base/vector.h"

namespace distbelief::comm {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{512} << 10;

// Between the pieces of a large window. A sum reads and writes the same place of all of them at once; a power
// of two apart they would share the sets of the caches and the banks of the memory: two pieces of 256 MiB
// took half as long again.
constexpr std::size_t kApartBytes = std::size_t{33} * 4096, kApartFromBytes = std::size_t{1} << 20;

// Adds sources[r][begin, end) over r in tree order and writes the result to all targets.
template <typename T>
void sum_range(std::span<std::byte* const> sources, std::span<std::byte* const> targets, Part range,
               ReduceOp op) {
  if (sources.size() == 2 && targets.size() == 2 && op == ReduceOp::kSum) {  // both in place
    add_to_both(reinterpret_cast<T*>(sources[0]) + range.begin,
                reinterpret_cast<T*>(sources[1]) + range.begin, range.end - range.begin);
    return;
  }
  std::vector<TreeNode> leaves(sources.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i] = {std::int64_t(i), std::int64_t(i) + 1};
  const TreeProgram program = tree_program(std::int64_t(leaves.size()), leaves);
  std::vector<T> scratch(kSumBlock * sources.size());
  std::vector<const T*> inputs(sources.size());
  for (std::size_t at = range.begin; at < range.end; at += kSumBlock) {
    const std::size_t count = std::min(kSumBlock, range.end - at);
    T* first = reinterpret_cast<T*>(targets[0]) + at;
    if (sources.size() == 2) {  // the common case, without the detour through scratch
      add(first, reinterpret_cast<const T*>(sources[0]) + at, reinterpret_cast<const T*>(sources[1]) + at,
          count);
    } else {
      for (std::size_t i = 0; i < sources.size(); ++i)
        inputs[i] = reinterpret_cast<const T*>(sources[i]) + at;
      const T* sum = tree_sum<T>(inputs, program.merges, count, scratch.data());
      std::memcpy(first, sum, count * sizeof(T));
    }
    finish_mean({first, count, sizeof(T) == 4 ? ElementType::kFloat32 : ElementType::kFloat64}, op,
                int(sources.size()));
    for (std::byte* target : targets.subspan(1))
      std::memcpy(reinterpret_cast<T*>(target) + at, first, count * sizeof(T));
  }
}

void sum_range(ElementType type, std::span<std::byte* const> sources, std::span<std::byte* const> targets,
               Part range, ReduceOp op) {
  if (type == ElementType::kFloat32) return sum_range<float>(sources, targets, range, op);
  if (type == ElementType::kFloat64) return sum_range<double>(sources, targets, range, op);
  return sum_range<std::int64_t>(sources, targets, range, op);
}

// Calls visit(chunk) over `values` in pieces that fit the staging area.
template <typename Visit>
void for_each_chunk(const View& values, const Visit& visit) {
  const std::size_t step = kChunkBytes / element_size(values.type);
  for (std::size_t at = 0; at < values.count; at += step)
    visit(values.part(at, std::min(values.count, at + step)));
}

}  // namespace

HostCommunicator::HostCommunicator(std::unique_ptr<Communicator> transport, std::chrono::nanoseconds deadline,
                                   int first_rank, int rank_stride)
    : Communicator(transport->rank(), transport->size()),
      transport_(std::move(transport)) {
  const std::size_t head = (HostDomain::bytes_needed(size()) + 4095) / 4096 * 4096;
  const std::size_t staging_bytes = HostCommunicator::staging_bytes(size());
  segment_ = SharedSegment::map_together(*transport_, head + staging_bytes);
  domain_ = std::make_unique<HostDomain>(segment_.data() + staging_bytes,
                                         HostDomain::Options{.member = rank(),
                                                             .members = size(),
                                                             .first_rank = first_rank,
                                                             .members_per_rank = 1,
                                                             .rank_stride = rank_stride,
                                                             .deadline = deadline});
}

HostCommunicator::~HostCommunicator() = default;

std::size_t HostCommunicator::staging_bytes(int ranks) {
  return ranks > 1 ? 2 * kChunkBytes * (std::size_t(ranks) + 1) : 0;
}

HostWindow& HostCommunicator::allocate(std::size_t bytes_per_rank) {
  const std::size_t apart = bytes_per_rank >= kApartFromBytes ? kApartBytes : 0;
  const std::size_t stride = (bytes_per_rank + 4095) / 4096 * 4096 + apart;
  windows_.push_back(std::make_unique<HostWindow>(
      SharedSegment::map_together(*transport_, stride * std::size_t(size())), stride, rank()));
  return *windows_.back();
}

const HostWindow* HostCommunicator::window_of(const View& values) const {
  for (const auto& window : windows_)
    if (window->holds(values)) return window.get();
  return nullptr;
}

std::byte* HostCommunicator::staging(int rank, int half) const {
  return segment_.data() + (std::size_t(rank) * 2 + std::size_t(half)) * kChunkBytes;
}

// Two halves take turns, so that a rank which still copies a result out is not overtaken: nobody can
// come back to a half before all have passed the barrier of the other one.
void HostCommunicator::reduce_staged(View chunk, ReduceOp op, int half) {
  std::memcpy(staging(rank(), half), chunk.data, chunk.bytes());
  domain_->barrier("allreduce");
  std::vector<std::byte*> sources;
  for (int r = 0; r < size(); ++r) sources.push_back(staging(r, half));
  std::byte* target = result(half);
  sum_range(chunk.type, sources, {&target, 1}, part_of(chunk.count, size(), rank()), op);
  domain_->barrier("allreduce");
  std::memcpy(chunk.data, target, chunk.bytes());
}

void HostCommunicator::allreduce(View values, ReduceOp op) {
  require_reducible(values, op);
  if (size() == 1) return;
  if (const HostWindow* window = window_of(values)) {
    const std::ptrdiff_t offset = static_cast<std::byte*>(values.data) - window->own();
    std::vector<std::byte*> copies;
    for (int r = 0; r < size(); ++r) copies.push_back(window->of(r) + offset);
    domain_->barrier("allreduce");
    sum_range(values.type, copies, copies, part_of(values.count, size(), rank()), op);
    domain_->barrier("allreduce");
    return;
  }
  for_each_chunk(values, [&](View chunk) { reduce_staged(chunk, op, half_ ^= 1); });
}

void HostCommunicator::reduce_scatter(View values, ReduceOp op) {
  const HostWindow* window = window_of(values);
  if (window == nullptr || size() == 1) return allreduce(values, op);
  require_reducible(values, op);
  const std::ptrdiff_t offset = static_cast<std::byte*>(values.data) - window->own();
  std::vector<std::byte*> copies;
  for (int r = 0; r < size(); ++r) copies.push_back(window->of(r) + offset);
  std::byte* own = copies[std::size_t(rank())];
  domain_->barrier("reduce-scatter");
  sum_range(values.type, copies, {&own, 1}, part_of(values.count, size(), rank()), op);
  domain_->barrier("reduce-scatter");
}

void HostCommunicator::allgather(View values) {
  for (int root = 0; root < size(); ++root) {
    const Part part = part_of(values.count, size(), root);
    broadcast(values.part(part.begin, part.end), root);
  }
}

void HostCommunicator::broadcast(View values, int root) {
  spread(values, root, HostDomain::Arrival::kTogether);
}

void HostCommunicator::broadcast_after_first(View values) {
  spread(values, 0, HostDomain::Arrival::kAfterFirst);
}

void HostCommunicator::spread(View values, int root, HostDomain::Arrival arrival) {
  if (size() == 1) return;
  for_each_chunk(values, [&](View chunk) {
    half_ ^= 1;
    if (rank() == root) std::memcpy(result(half_), chunk.data, chunk.bytes());
    domain_->barrier("broadcast", -1, arrival);
    if (rank() != root) std::memcpy(chunk.data, result(half_), chunk.bytes());
  });
}

void HostCommunicator::barrier() { domain_->barrier("barrier"); }

void HostCommunicator::barrier_after_first() {
  domain_->barrier("barrier", -1, HostDomain::Arrival::kAfterFirst);
}

}  // namespace distbelief::comm
