#include <gtest/gtest.h>

#include <functional>

#include "conformance/operations.h"
#include "distbelief/base/error.h"
#include "distbelief/comm/async.h"

// The last rank takes no part in an operation: the others must say so, and by when.
namespace distbelief::conformance {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using comm::view;

// Of the others none may come that much later than the first, also on a busy machine: it would be named instead.
constexpr auto kImpatience = std::chrono::milliseconds(1000);

void expect_silence_noticed(Communicator& group, const char* wanted_operation,
                            const std::function<void()>& operation) {
  const int silent = group.size() - 1;
  if (group.rank() == silent) return;
  try {
    operation();
    ADD_FAILURE() << "rank " << silent << " took no part";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout) << error.what();
    EXPECT_EQ(error.where().rank, silent) << error.what();
    EXPECT_EQ(error.where().operation, wanted_operation) << error.what();
  }
}

void link_names_the_silent_rank() {
  const auto group = make_impatient_link(kImpatience);
  std::vector<float> values(100, 1);
  expect_silence_noticed(*group, "direct reduce-scatter",
                         [&] { group->allreduce(view(values.data(), values.size()), ReduceOp::kSum); });
}

void receive_names_the_silent_rank() {
  const auto group = make_impatient_link(kImpatience);
  float value = 0;
  expect_silence_noticed(*group, "receive", [&] { group->receive(view(&value, 1), group->size() - 1, 5); });
}

void host_names_the_silent_rank() {
  const auto group = make_impatient_host(kImpatience);
  std::vector<float> values(100, 1);
  expect_silence_noticed(*group, "allreduce",
                         [&] { group->allreduce(view(values.data(), values.size()), ReduceOp::kSum); });
}

void expect_closed_barrier(Communicator& group) {
  if (group.rank() + 1 == group.size()) return;
  try {
    group.barrier();
    ADD_FAILURE() << "left the barrier before the last rank came";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout) << error.what();
  }
}

void barrier_of_a_link_stays_closed() { expect_closed_barrier(*make_impatient_link(kImpatience)); }
void barrier_of_a_host_stays_closed() { expect_closed_barrier(*make_impatient_host(kImpatience)); }

void handle_throws_what_the_operation_threw_and_so_do_later_ones() {
  const auto group = make_impatient_link(kImpatience);
  comm::AsyncCommunicator async(*group);
  if (group->rank() + 1 == group->size()) return;
  std::vector<float> values(100, 1);
  const comm::Handle first = async.allreduce(view(values.data(), values.size()), ReduceOp::kSum);
  const comm::Handle second = async.barrier();
  expect_silence_noticed(*group, "direct reduce-scatter", [&] { first.wait(); });
  const auto begin = std::chrono::steady_clock::now();
  expect_silence_noticed(*group, "direct reduce-scatter", [&] { second.wait(); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kImpatience) << "it waited once more";
}

bool several_ranks(const World& world) { return world.size() > 1; }
bool several_ranks_on_one_host(const World& world) { return world.size() > 1 && world.hosts() == 1; }

}  // namespace

const std::vector<SilentRankTest>& silent_rank_tests() {
  static const std::vector<SilentRankTest> tests{
      {"LinkNamesTheSilentRank", link_names_the_silent_rank, several_ranks},
      {"ReceiveNamesTheSilentRank", receive_names_the_silent_rank, several_ranks},
      {"HostNamesTheSilentRank", host_names_the_silent_rank, several_ranks_on_one_host},
      {"BarrierOfALinkStaysClosed", barrier_of_a_link_stays_closed, several_ranks},
      {"BarrierOfAHostStaysClosed", barrier_of_a_host_stays_closed, several_ranks_on_one_host},
      {"HandleThrowsWhatTheOperationThrewAndSoDoLaterOnes",
       handle_throws_what_the_operation_threw_and_so_do_later_ones, several_ranks}};
  return tests;
}

}  // namespace distbelief::conformance
