#include "distbelief/comm/host/communicator.h"

#include <atomic>
#include <cstring>

#include "distbelief/base/prefetch.h"
#include "distbelief/base/tree.h"
#include "distbelief/base/vector.h"

namespace distbelief::comm {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kChunkBytes = std::size_t{512} << 10;

// Distance between the pieces of a large window. A sum reads and writes the same place of all of them at
// once. At a power of two apart the pieces share the sets of the caches and the banks of the memory, and a
// sum over two pieces of 256 MiB takes half as long again.
constexpr std::size_t kApartBytes = 33 * kPageBytes, kApartFromBytes = std::size_t{1} << 20;

// Ranks are not equally fast: each has its own cores, caches and neighbours, and when two ranks had half of a
// sum each the slower one took up to half as long again. So a large window is summed in pieces, and a free
// rank takes the next one. Large pieces come first, because each begins with a fetch from memory that nothing
// hides; small ones come last, because all ranks wait for the last piece.
constexpr std::size_t kLeastPieceBytes = std::size_t{512} << 10, kMostPieceBytes = std::size_t{8} << 20;
constexpr std::size_t kPiecesLeftPerRank = 4;

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
    if (sources.size() == 2) {  // the common case needs no scratch
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

constexpr std::size_t up_to(std::size_t bytes, std::size_t whole) {
  return (bytes + whole - 1) / whole * whole;
}

}  // namespace

// The part of a sum that ranks have taken: the first elements.
struct alignas(kCacheLine) HostCommunicator::Pieces {
  std::atomic<std::size_t> taken;

  // Returns an empty part once all is taken.
  Part take(const View& values, int ranks) {
    const std::size_t least = kLeastPieceBytes / element_size(values.type);
    const std::size_t most = kMostPieceBytes / element_size(values.type);
    std::size_t begin = taken.load(std::memory_order_relaxed), end = 0;
    do {
      if (begin == values.count) return {begin, begin};
      const std::size_t left = values.count - begin;
      end = begin + std::min(left, std::clamp(left / (kPiecesLeftPerRank * std::size_t(ranks)), least, most));
    } while (!taken.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    return {begin, end};
  }
};

HostCommunicator::HostCommunicator(std::unique_ptr<Communicator> transport, std::chrono::nanoseconds deadline,
                                   int first_rank, int rank_stride)
    : Communicator(transport->rank(), transport->size()),
      transport_(std::move(transport)) {
  const std::size_t domain_bytes = up_to(HostDomain::bytes_needed(size()), sizeof(Pieces));
  const std::size_t staging_bytes = HostCommunicator::staging_bytes(size());
  segment_ = SharedSegment::map_together(*transport_,
                                         staging_bytes + up_to(domain_bytes + sizeof(Pieces), kPageBytes));
  pieces_ = reinterpret_cast<Pieces*>(segment_.data() + staging_bytes + domain_bytes);
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
  const std::size_t stride = up_to(bytes_per_rank, kPageBytes) + apart;
  windows_.push_back(std::make_unique<HostWindow>(
      SharedSegment::map_together(*transport_, stride * std::size_t(size())), stride, rank()));
  return *windows_.back();
}

void HostCommunicator::free(const HostWindow& window) {
  std::erase_if(windows_, [&](const auto& each) { return each.get() == &window; });
}

const HostWindow* HostCommunicator::window_of(const View& values) const {
  for (const auto& window : windows_)
    if (window->holds(values)) return window.get();
  return nullptr;
}

std::vector<std::byte*> HostCommunicator::copies_in(const HostWindow& window, const View& values) const {
  const std::ptrdiff_t offset = static_cast<std::byte*>(values.data) - window.own();
  std::vector<std::byte*> copies;
  for (int r = 0; r < size(); ++r) copies.push_back(window.of(r) + offset);
  return copies;
}

std::byte* HostCommunicator::staging(int rank, int half) const {
  return segment_.data() + (std::size_t(rank) * 2 + std::size_t(half)) * kChunkBytes;
}

// Two halves take turns, so that no rank overwrites a result that another still copies out: no rank returns
// to a half before all have passed the barrier of the other one.
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

// Runs between two barriers, so no rank takes a piece while the first rank resets them.
void HostCommunicator::reduce_in_window(const HostWindow& window, const View& values, ReduceOp op) {
  const std::vector<std::byte*> copies = copies_in(window, values);
  const bool is_large = values.bytes() >= 2 * kLeastPieceBytes * std::size_t(size());
  if (rank() == 0) pieces_->taken.store(0, std::memory_order_relaxed);
  domain_->barrier("allreduce");
  if (is_large) {
    for (Part piece = pieces_->take(values, size()); piece.begin < piece.end;
         piece = pieces_->take(values, size()))
      sum_range(values.type, copies, copies, piece, op);
  } else {
    sum_range(values.type, copies, copies, part_of(values.count, size(), rank()), op);
  }
  domain_->barrier("allreduce");
}

void HostCommunicator::allreduce(View values, ReduceOp op) {
  require_reducible(values, op);
  if (size() == 1) return;
  if (const HostWindow* window = window_of(values)) return reduce_in_window(*window, values, op);
  for_each_chunk(values, [&](View chunk) { reduce_staged(chunk, op, half_ ^= 1); });
}

void HostCommunicator::reduce_scatter(View values, ReduceOp op) {
  const HostWindow* window = window_of(values);
  if (window == nullptr || size() == 1) return allreduce(values, op);
  require_reducible(values, op);
  const std::vector<std::byte*> copies = copies_in(*window, values);
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
  require_rank(*this, root);
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
