#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <functional>

#include "conformance/operations.h"
#include "distbelief/base/error.h"
#include "distbelief/comm/async.h"

// The last rank takes no part in an operation: the others must say so, and by when.
namespace distbelief::conformance {
namespace {

using comm::Algorithm;
using comm::Communicator;
using comm::ReduceOp;
using comm::view;

// Of the others none may come that much later than the first, also on a busy machine: it would be named
// instead.
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

void link_names_the_silent_rank(const World&) {
  const auto group = make_impatient_link(Algorithm::kDirect, kImpatience);
  std::vector<float> values(100, 1);
  expect_silence_noticed(*group, "direct reduce-scatter",
                         [&] { group->allreduce(view(values.data(), values.size()), ReduceOp::kSum); });
}

void receive_names_the_silent_rank(const World&) {
  const auto group = make_impatient_link(Algorithm::kDirect, kImpatience);
  float value = 0;
  expect_silence_noticed(*group, "receive", [&] { group->receive(view(&value, 1), group->size() - 1, 5); });
}

void host_names_the_silent_rank(const World&) {
  const auto group = make_impatient_host(kImpatience);
  std::vector<float> values(100, 1);
  expect_silence_noticed(*group, "allreduce",
                         [&] { group->allreduce(view(values.data(), values.size()), ReduceOp::kSum); });
}

void host_names_the_silent_rank_of_a_window(const World&) {
  const auto group = make_impatient_host(kImpatience);
  auto* values = reinterpret_cast<float*>(group->allocate(100 * sizeof(float)).own());
  expect_silence_noticed(*group, "reduce-scatter",
                         [&] { group->reduce_scatter(view(values, 100), ReduceOp::kSum); });
}

// Who waits for the silent rank itself names it; others may give up first, and name one who waits.
void expect_first_rank_notices(Algorithm algorithm, const char* wanted_operation) {
  const auto group = make_impatient_link(algorithm, kImpatience);
  std::vector<float> values(100, 1);
  const auto sum = [&] { group->allreduce(view(values.data(), values.size()), ReduceOp::kSum); };
  if (group->rank() == 0) return expect_silence_noticed(*group, wanted_operation, sum);
  if (group->rank() + 1 == group->size()) return;
  EXPECT_THROW(sum(), Error);
}

void ring_neighbour_names_the_silent_rank(const World&) {
  expect_first_rank_notices(Algorithm::kRing, "ring reduce-scatter");
}

void central_rank_names_the_silent_rank(const World&) {
  expect_first_rank_notices(Algorithm::kCentral, "central reduce");
}

// Workers end together when the first of them gives up: that one must be right.
void first_to_give_up_on_hosts_names_the_silent_rank(const World& world) {
  struct Word {
    double at = 1e300;
    int named = -1;
  };
  const auto hosts = make_impatient_hosts(world.hosts(), kImpatience);
  Communicator& group = hosts->communicator();
  const int silent = group.size() - 1;
  std::vector<float> values(100, 1);
  Word own;
  if (group.rank() != silent) try {
      group.allreduce(view(values.data(), values.size()), ReduceOp::kSum);
      ADD_FAILURE() << "rank " << silent << " took no part";
    } catch (const Error& error) {
      hosts->tell(error);
      const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
      if (error.code() == ErrorCode::kTimeout) own = {now.count(), error.where().rank};
    }
  std::vector<Word> all(std::size_t(group.size()));
  MPI_Allgather(&own, sizeof(own), MPI_BYTE, all.data(), sizeof(own), MPI_BYTE, MPI_COMM_WORLD);
  const auto first = std::ranges::min_element(all, {}, &Word::at);
  EXPECT_EQ(first->named, silent) << "by rank " << first - all.begin();
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

void barrier_of_a_link_stays_closed(const World&) {
  expect_closed_barrier(*make_impatient_link(Algorithm::kDirect, kImpatience));
}
void barrier_of_a_host_stays_closed(const World&) {
  expect_closed_barrier(*make_impatient_host(kImpatience));
}

void handle_throws_what_the_operation_threw_and_so_do_later_ones(const World&) {
  const auto group = make_impatient_link(Algorithm::kDirect, kImpatience);
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
      {"HostNamesTheSilentRankOfAWindow", host_names_the_silent_rank_of_a_window, several_ranks_on_one_host},
      {"RingNeighbourNamesTheSilentRank", ring_neighbour_names_the_silent_rank, several_ranks},
      {"CentralRankNamesTheSilentRank", central_rank_names_the_silent_rank, several_ranks},
      {"FirstToGiveUpOnHostsNamesTheSilentRank", first_to_give_up_on_hosts_names_the_silent_rank,
       several_ranks},
      {"BarrierOfALinkStaysClosed", barrier_of_a_link_stays_closed, several_ranks},
      {"BarrierOfAHostStaysClosed", barrier_of_a_host_stays_closed, several_ranks_on_one_host},
      {"HandleThrowsWhatTheOperationThrewAndSoDoLaterOnes",
       handle_throws_what_the_operation_threw_and_so_do_later_ones, several_ranks}};
  return tests;
}

}  // namespace distbelief::conformance
