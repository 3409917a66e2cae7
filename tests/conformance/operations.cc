#include "conformance/operations.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"
#include "distbelief/comm/async.h"

namespace distbelief::conformance {
namespace {

using comm::Communicator;
using comm::Part;
using comm::part_of;
using comm::ReduceOp;
using comm::view;

const std::size_t kCounts[] = {0, 1, 7, 1000, 100'003};
constexpr std::size_t kLargeCount = kLargestBytes / sizeof(float);

// Rank r's contribution at i: whole numbers, whose sums are exact in every type and order.
template <typename T>
T value_at(int rank, std::size_t i) {
  return T((rank + 1) * 3 + int(i % 101) - 50);
}

template <typename T>
T sum_at(int size, std::size_t i) {
  T sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += value_at<T>(rank, i);
  return sum;
}

template <typename T>
T* fill(Backend& backend, const Communicator& group, std::size_t count) {
  T* values = reinterpret_cast<T*>(backend.memory(count * sizeof(T)));
  for (std::size_t i = 0; i < count; ++i) values[i] = value_at<T>(group.rank(), i);
  return values;
}

// One line for a whole array, with the first place that is wrong.
template <typename T, typename Wanted>
void expect_values(const T* values, std::size_t begin, std::size_t end, double tolerance,
                   const Wanted& wanted) {
  for (std::size_t i = begin; i < end; ++i) {
    if (std::abs(double(values[i]) - double(wanted(i))) <= tolerance) continue;
    ADD_FAILURE() << "element " << i << " is " << values[i] << ", wanted " << wanted(i);
    return;
  }
}

template <typename T>
void allreduce_of(Backend& backend, std::size_t count, ReduceOp op) {
  SCOPED_TRACE(count);
  Communicator& group = backend.communicator();
  T* values = fill<T>(backend, group, count);
  group.allreduce(view(values, count), op);
  const double divisor = op == ReduceOp::kMean ? group.size() : 1;
  expect_values(values, 0, count, op == ReduceOp::kMean ? 1e-4 : 0,
                [&](std::size_t i) { return double(sum_at<T>(group.size(), i)) / divisor; });
}

void allreduce_adds_up(Backend& backend) {
  for (std::size_t count : kCounts) {
    allreduce_of<float>(backend, count, ReduceOp::kSum);
    allreduce_of<double>(backend, count, ReduceOp::kSum);
    allreduce_of<std::int64_t>(backend, count, ReduceOp::kSum);
  }
  allreduce_of<float>(backend, kLargeCount, ReduceOp::kSum);
  allreduce_of<std::int64_t>(backend, kLargeCount / 2, ReduceOp::kSum);
}

void allreduce_takes_the_mean(Backend& backend) {
  for (std::size_t count : kCounts) {
    allreduce_of<float>(backend, count, ReduceOp::kMean);
    allreduce_of<double>(backend, count, ReduceOp::kMean);
  }
  allreduce_of<double>(backend, kLargeCount / 2, ReduceOp::kMean);
  allreduce_of<float>(backend, kLargeCount, ReduceOp::kMean);
}

template <typename T>
void reduce_scatter_of(Backend& backend, std::size_t count, ReduceOp op) {
  SCOPED_TRACE(count);
  Communicator& group = backend.communicator();
  T* values = fill<T>(backend, group, count);
  group.reduce_scatter(view(values, count), op);
  const Part own = part_of(count, group.size(), group.rank());
  const double divisor = op == ReduceOp::kMean ? group.size() : 1;
  expect_values(values, own.begin, own.end, op == ReduceOp::kMean ? 1e-4 : 0,
                [&](std::size_t i) { return double(sum_at<T>(group.size(), i)) / divisor; });
}

void reduce_scatter_leaves_each_rank_its_part(Backend& backend) {
  for (std::size_t count : kCounts) {
    reduce_scatter_of<float>(backend, count, ReduceOp::kSum);
    reduce_scatter_of<double>(backend, count, ReduceOp::kMean);
    reduce_scatter_of<std::int64_t>(backend, count, ReduceOp::kSum);
  }
  reduce_scatter_of<float>(backend, kLargeCount, ReduceOp::kMean);
}

template <typename T>
void allgather_of(Backend& backend, std::size_t count) {
  SCOPED_TRACE(count);
  Communicator& group = backend.communicator();
  T* values = fill<T>(backend, group, count);
  group.allgather(view(values, count));
  for (int rank = 0; rank < group.size(); ++rank) {
    const Part part = part_of(count, group.size(), rank);
    expect_values(values, part.begin, part.end, 0, [&](std::size_t i) { return value_at<T>(rank, i); });
  }
}

void allgather_gives_all_parts_to_all(Backend& backend) {
  for (std::size_t count : kCounts) {
    allgather_of<float>(backend, count);
    allgather_of<std::int64_t>(backend, count);
  }
  allgather_of<float>(backend, kLargeCount);
}

void broadcast_reaches_all_from_every_root(Backend& backend) {
  Communicator& group = backend.communicator();
  for (int root = 0; root < group.size(); ++root)
    for (std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{100'003}, kLargeCount}) {
      float* values = fill<float>(backend, group, count);
      group.broadcast(view(values, count), root);
      expect_values(values, 0, count, 0, [&](std::size_t i) { return value_at<float>(root, i); });
    }
}

void broadcast_carries_bytes(Backend& backend) {
  Communicator& group = backend.communicator();
  std::byte* text = backend.memory(5);
  std::memcpy(text, group.rank() == 0 ? "hello" : "-----", 5);
  group.broadcast(view(text, 5), 0);
  EXPECT_EQ(std::memcmp(text, "hello", 5), 0);
}

void barriers_mix_with_other_operations(Backend& backend) {
  Communicator& group = backend.communicator();
  for (int round = 0; round < 20; ++round) {
    group.barrier();
    auto* turn = reinterpret_cast<std::int64_t*>(backend.memory(sizeof(std::int64_t)));
    *turn = round;
    group.allreduce(view(turn, 1), ReduceOp::kSum);
    EXPECT_EQ(*turn, std::int64_t{round} * group.size());
  }
}

// Several operations under way at once, waited for in another order than they were given in.
void handles_run_in_the_order_given(Backend& backend) {
  constexpr std::size_t kCount = 4096, kOperations = 6;
  Communicator& group = backend.communicator();
  comm::AsyncCommunicator async(group);
  float* values = fill<float>(backend, group, kCount * kOperations);
  std::vector<comm::Handle> handles;
  for (std::size_t k = 0; k < kOperations; ++k) {
    handles.push_back(async.allreduce(view(values + k * kCount, kCount), ReduceOp::kSum));
    handles.push_back(async.broadcast(view(values + k * kCount, kCount), int(k) % group.size()));
  }
  for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle) handle->wait();
  EXPECT_TRUE(handles.front().done());
  expect_values(values, 0, kCount * kOperations, 0,
                [&](std::size_t i) { return sum_at<float>(group.size(), i); });
}

// Each rank sends first, more than MPI sends without a receiver, and gives a barrier before it receives.
void handles_of_messages_do_not_wait_for_each_other(Backend& backend) {
  constexpr std::size_t kCount = (std::size_t{1} << 20) / sizeof(float);
  Communicator& group = backend.communicator();
  if (group.size() == 1) return;
  comm::AsyncCommunicator async(group);
  const int next = (group.rank() + 1) % group.size(),
            previous = (group.rank() + group.size() - 1) % group.size();
  for (int round = 0; round < 3; ++round) {
    std::vector<float> out(kCount, float(group.rank() + round)), in(kCount, -1);
    const comm::Handle sent = async.send(view(out.data(), kCount), next, round);
    const comm::Handle met = async.barrier();
    const comm::Handle received = async.receive(view(in.data(), kCount), previous, round);
    sent.wait();
    met.wait();
    received.wait();
    expect_values(in.data(), 0, kCount, 0, [&](std::size_t) { return float(previous + round); });
  }
}

// The barrier of a rank that has sent is met only by those who have got it: messages go on meanwhile.
void messages_go_on_beside_a_barrier(Backend& backend) {
  constexpr std::size_t kCount = (std::size_t{1} << 20) / sizeof(float);
  Communicator& group = backend.communicator();
  if (group.size() == 1) return;
  comm::AsyncCommunicator async(group);
  std::vector<float> out(kCount, float(group.rank())), in(kCount, -1);
  if (group.rank() == 0) {
    const comm::Handle sent = async.send(view(out.data(), kCount), 1, 0);
    async.barrier().wait();
    sent.wait();
  } else {
    if (group.rank() == 1) async.receive(view(in.data(), kCount), 0, 0).wait();
    async.barrier().wait();
    EXPECT_EQ(in.back(), group.rank() == 1 ? 0 : -1);
  }
}

// The first rank sends before it receives and the others the other way round: send may wait for its receiver.
void messages_go_round_a_ring(Backend& backend) {
  Communicator& group = backend.communicator();
  if (group.size() == 1) return;
  const int next = (group.rank() + 1) % group.size(),
            previous = (group.rank() + group.size() - 1) % group.size();
  for (std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, kLargeCount}) {
    std::vector<float> out(count, float(group.rank())), in(count, -1);
    const int tag = int(count % 7);
    if (group.rank() == 0) group.send(view(out.data(), count), next, tag);
    group.receive(view(in.data(), count), previous, tag);
    if (group.rank() != 0) group.send(view(out.data(), count), next, tag);
    expect_values(in.data(), 0, count, 0, [&](std::size_t) { return float(previous); });
  }
}

void fill_with_noise(float* values, std::size_t count, int rank) {
  SplitMix64 random(derive_seed({std::uint64_t(rank), count}));
  for (std::size_t i = 0; i < count; ++i) values[i] = float(random.uniform() - 0.5);
}

// All ranks have the same bits after an allreduce, every time.
void results_are_the_same_bits(Backend& backend) {
  constexpr std::size_t kCount = 10'007;
  Communicator& group = backend.communicator();
  std::vector<float> first;
  for (int round = 0; round < 3; ++round) {
    auto* values = reinterpret_cast<float*>(backend.memory(kCount * sizeof(float)));
    fill_with_noise(values, kCount, group.rank());
    group.allreduce(view(values, kCount), ReduceOp::kMean);
    const std::vector<float> found(values, values + kCount);
    group.broadcast(view(values, kCount), 0);
    EXPECT_EQ(std::memcmp(found.data(), values, kCount * sizeof(float)), 0) << "ranks differ";
    if (first.empty()) first = found;
    EXPECT_TRUE(found == first) << "round " << round << " differs";
  }
}

// The sum of rows [begin, end) at i, as base/tree.h defines it.
float tree_sum_at(const std::vector<std::vector<float>>& rows, std::size_t begin, std::size_t end,
                  std::size_t i) {
  if (end - begin == 1) return rows[begin][i];
  const std::size_t middle = begin + std::bit_floor(end - begin - 1);
  return tree_sum_at(rows, begin, middle, i) + tree_sum_at(rows, middle, end, i);
}

std::vector<float> tree_sum_of(const std::vector<std::vector<float>>& rows) {
  std::vector<float> sum(rows[0].size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = tree_sum_at(rows, 0, rows.size(), i);
  return sum;
}

void sums_are_in_the_order_that_is_promised(Backend& backend) {
  constexpr std::size_t kCount = 10'007;
  std::vector<std::vector<float>> sums;
  int rank = 0;
  for (const int ranks : backend.tree_groups()) {
    std::vector<std::vector<float>> rows;
    for (const int end = rank + ranks; rank < end; ++rank)
      fill_with_noise(rows.emplace_back(kCount).data(), kCount, rank);
    sums.push_back(tree_sum_of(rows));
  }
  if (sums.empty()) return;
  Communicator& group = backend.communicator();
  auto* values = reinterpret_cast<float*>(backend.memory(kCount * sizeof(float)));
  fill_with_noise(values, kCount, group.rank());
  group.allreduce(view(values, kCount), ReduceOp::kSum);
  EXPECT_EQ(std::memcmp(values, tree_sum_of(sums).data(), kCount * sizeof(float)), 0);
}

template <typename Operation>
void expect_refused(const Operation& operation) {
  try {
    operation();
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput) << error.what();
  }
}

void senseless_types_are_refused(Backend& backend) {
  std::byte* bytes = backend.memory(16);
  auto* whole = reinterpret_cast<std::int64_t*>(bytes);
  expect_refused([&] { backend.communicator().allreduce(view(bytes, 16), ReduceOp::kSum); });
  expect_refused([&] { backend.communicator().reduce_scatter(view(bytes, 16), ReduceOp::kSum); });
  expect_refused([&] { backend.communicator().allreduce(view(whole, 2), ReduceOp::kMean); });
  expect_refused([&] { backend.communicator().reduce_scatter(view(whole, 2), ReduceOp::kMean); });
}

void ranks_that_are_not_there_are_refused(Backend& backend) {
  Communicator& group = backend.communicator();
  std::byte* bytes = backend.memory(16);
  for (const int rank : {-1, group.size()}) {
    expect_refused([&] { group.broadcast(view(bytes, 16), rank); });
    expect_refused([&] { group.send(view(bytes, 16), rank, 0); });
    expect_refused([&] { group.receive(view(bytes, 16), rank, 0); });
  }
}

// More bytes than an int counts, which is what MPI counts with.
void a_message_may_be_longer_than_mpi_counts(Backend& backend) {
  constexpr std::size_t kBytes = (std::size_t{1} << 31) + 12'345, kStride = 4099;
  Communicator& group = backend.communicator();
  if (group.rank() > 1) return;
  const auto value = [](std::size_t i) { return std::byte(i % 251); };
  std::vector<std::byte> bytes(kBytes);
  if (group.rank() == 0) {
    for (std::size_t i = 0; i < kBytes; i += kStride) bytes[i] = value(i);
    bytes.back() = std::byte{77};
    group.send(view(bytes.data(), kBytes), 1, 0);
    return;
  }
  group.receive(view(bytes.data(), kBytes), 0, 0);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kBytes - 1; i += kStride) wrong += bytes[i] != value(i) ? 1 : 0;
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(bytes.back(), std::byte{77});
}

}  // namespace

const std::vector<BackendTest>& large_tests() {
  static const std::vector<BackendTest> tests{
      {"AMessageMayBeLongerThanMpiCounts", a_message_may_be_longer_than_mpi_counts}};
  return tests;
}

const std::vector<BackendTest>& backend_tests() {
  static const std::vector<BackendTest> tests{
      {"AllreduceAddsUp", allreduce_adds_up},
      {"AllreduceTakesTheMean", allreduce_takes_the_mean},
      {"ReduceScatterLeavesEachRankItsPart", reduce_scatter_leaves_each_rank_its_part},
      {"AllgatherGivesAllPartsToAll", allgather_gives_all_parts_to_all},
      {"BroadcastReachesAllFromEveryRoot", broadcast_reaches_all_from_every_root},
      {"BroadcastCarriesBytes", broadcast_carries_bytes},
      {"BarriersMixWithOtherOperations", barriers_mix_with_other_operations},
      {"HandlesRunInTheOrderGiven", handles_run_in_the_order_given},
      {"HandlesOfMessagesDoNotWaitForEachOther", handles_of_messages_do_not_wait_for_each_other},
      {"MessagesGoOnBesideABarrier", messages_go_on_beside_a_barrier},
      {"MessagesGoRoundARing", messages_go_round_a_ring},
      {"ResultsAreTheSameBits", results_are_the_same_bits},
      {"SumsAreInTheOrderThatIsPromised", sums_are_in_the_order_that_is_promised},
      {"SenselessTypesAreRefused", senseless_types_are_refused},
      {"RanksThatAreNotThereAreRefused", ranks_that_are_not_there_are_refused}};
  return tests;
}

}  // namespace distbelief::conformance
