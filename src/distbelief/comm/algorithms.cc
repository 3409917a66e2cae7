#include "distbelief/comm/algorithms.h"

#include <algorithm>
#include <vector>

#include "distbelief/base/tree.h"

namespace distbelief::comm {
namespace {

// Tags keep the messages of different operations apart if a rank falls out of step.
enum Tag : int {
  kRingReduceTag = 1,
  kRingGatherTag,
  kDirectReduceTag,
  kDirectGatherTag,
  kCentralTag,
  kBroadcastTag,
  kBarrierTag
};

using Requests = std::vector<Link::Request>;

View part_view(const View& values, const Parts& parts, int rank) {
  return values.part(parts[std::size_t(rank)].begin, parts[std::size_t(rank)].end);
}

std::byte* bytes_of(const View& values) { return static_cast<std::byte*>(values.data); }

void exchange(Link& link, const View& out, int to, std::byte* in, std::size_t in_bytes, int from, int tag,
              const char* operation) {
  Requests requests{link.start_receive(in, in_bytes, from, tag),
                    link.start_send(bytes_of(out), out.bytes(), to, tag)};
  link.wait(requests, operation);
}

// Adds one contribution per rank in the tree's order; the sum ends in contributions[0].
void add_in_tree_order(const std::vector<View>& contributions) {
  std::vector<TreeNode> leaves(contributions.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i] = {std::int64_t(i), std::int64_t(i) + 1};
  const TreeProgram program = tree_program(std::int64_t(leaves.size()), leaves);
  std::vector<std::size_t> stack;
  for (std::size_t i = 0; i < contributions.size(); ++i) {
    stack.push_back(i);
    for (int merge = 0; merge < program.merges[i]; ++merge) {
      const std::size_t right = stack.back();
      stack.pop_back();
      accumulate(contributions[stack.back()], contributions[right].data);
    }
  }
}

// Collects every other rank's `part` here and leaves the tree-ordered sum in it.
void gather_and_add(Link& link, const View& part, const char* operation, Requests& requests, int tag) {
  std::vector<std::byte> scratch(part.bytes() * std::size_t(link.size()));
  std::vector<View> contributions;
  for (int rank = 0; rank < link.size(); ++rank) {
    std::byte* place = scratch.data() + std::size_t(rank) * part.bytes();
    contributions.push_back({place, part.count, part.type});
    if (rank == link.rank())
      std::copy_n(bytes_of(part), part.bytes(), place);  // also right for no bytes at null
    else
      requests.push_back(link.start_receive(place, part.bytes(), rank, tag));
  }
  link.wait(requests, operation);
  add_in_tree_order(contributions);
  std::copy_n(scratch.data(), part.bytes(), bytes_of(part));
}

}  // namespace

Parts even_parts(std::size_t count, int size) {
  Parts parts;
  for (int rank = 0; rank < size; ++rank) parts.push_back(part_of(count, size, rank));
  return parts;
}

void ring_reduce_scatter(Link& link, const View& values, const Parts& parts) {
  const int n = link.size();
  const int next = (link.rank() + 1) % n;
  const int previous = (link.rank() + n - 1) % n;
  std::vector<std::byte> incoming;
  for (int round = 0; round < n - 1; ++round) {
    // Round k: rank r passes on part r - 1 - k, to which k + 1 ranks have added.
    const View out = part_view(values, parts, (link.rank() + 2 * n - 1 - round) % n);
    const View in = part_view(values, parts, (link.rank() + 2 * n - 2 - round) % n);
    if (incoming.size() < in.bytes()) incoming.resize(in.bytes());
    exchange(link, out, next, incoming.data(), in.bytes(), previous, kRingReduceTag, "ring reduce-scatter");
    accumulate(in, incoming.data());
  }
}

void ring_allgather(Link& link, const View& values, const Parts& parts) {
  const int n = link.size();
  for (int round = 0; round < n - 1; ++round) {
    const View out = part_view(values, parts, (link.rank() + n - round) % n);
    const View in = part_view(values, parts, (link.rank() + 2 * n - 1 - round) % n);
    exchange(link, out, (link.rank() + 1) % n, bytes_of(in), in.bytes(), (link.rank() + n - 1) % n,
             kRingGatherTag, "ring allgather");
  }
}

void direct_reduce_scatter(Link& link, const View& values, const Parts& parts) {
  Requests requests;
  for (int rank = 0; rank < link.size(); ++rank) {
    if (rank == link.rank()) continue;
    const View part = part_view(values, parts, rank);
    requests.push_back(link.start_send(bytes_of(part), part.bytes(), rank, kDirectReduceTag));
  }
  gather_and_add(link, part_view(values, parts, link.rank()), "direct reduce-scatter", requests,
                 kDirectReduceTag);
}

void direct_allgather(Link& link, const View& values, const Parts& parts) {
  Requests requests;
  const View own = part_view(values, parts, link.rank());
  for (int rank = 0; rank < link.size(); ++rank) {
    if (rank == link.rank()) continue;
    const View part = part_view(values, parts, rank);
    requests.push_back(link.start_receive(bytes_of(part), part.bytes(), rank, kDirectGatherTag));
    requests.push_back(link.start_send(bytes_of(own), own.bytes(), rank, kDirectGatherTag));
  }
  link.wait(requests, "direct allgather");
}

void central_reduce(Link& link, const View& values) {
  Requests requests;
  if (link.rank() == 0) {
    gather_and_add(link, values, "central reduce", requests, kCentralTag);
    return;
  }
  requests.push_back(link.start_send(bytes_of(values), values.bytes(), 0, kCentralTag));
  link.wait(requests, "central reduce");
}

void broadcast(Link& link, const View& values, int root) {
  const int n = link.size();
  const int relative = (link.rank() - root + n) % n;
  int mask = 1;
  for (; mask < n && !(relative & mask); mask <<= 1) {
  }
  if (relative != 0) {
    Requests requests{
        link.start_receive(bytes_of(values), values.bytes(), (link.rank() - mask + n) % n, kBroadcastTag)};
    link.wait(requests, "broadcast");
  }
  Requests requests;
  for (mask >>= 1; mask > 0; mask >>= 1)
    if (relative + mask < n)
      requests.push_back(
          link.start_send(bytes_of(values), values.bytes(), (link.rank() + mask) % n, kBroadcastTag));
  link.wait(requests, "broadcast");
}

void barrier(Link& link) {
  const int n = link.size();
  std::byte out{}, in{};
  for (int distance = 1; distance < n; distance *= 2) {
    Requests requests{link.start_receive(&in, 1, (link.rank() + n - distance) % n, kBarrierTag),
                      link.start_send(&out, 1, (link.rank() + distance) % n, kBarrierTag)};
    link.wait(requests, "barrier");
  }
}

}  // namespace distbelief::comm
