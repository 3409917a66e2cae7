#include "distbelief/server/service/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/server/client/client.h"
#include "distbelief/server/client/client_handle.h"
#include "distbelief/server/client/close_job.h"
#include "distbelief/server/client/map_plan.h"
#include "distbelief/testing/test_servers.h"
#include "distbelief/testing/test_tickets.h"

namespace distbelief::server {
namespace {

using testing::ServiceTest;
using namespace std::chrono_literals;

TEST_F(ServiceTest, APushComesBackAsNewValuesOverAnyPath) {
  for (const bool shares_memory : {true, false}) {
    SetUp();
    exchanges_.clear();
    services_.clear();
    addresses_.clear();
    serve(2);
    Client client = join(0, spec("async"), 1, shares_memory);
    std::vector<float> values(spec("async").elements), gradient(values.size(), 0.5F);
    EXPECT_EQ(client.pull(values), 0);
    EXPECT_EQ(values, std::vector<float>(values.size(), 1.0F));
    EXPECT_FALSE(client.push_pull({.ticket = 0, .lr = 1}, gradient, values));
    EXPECT_EQ(values[0], 0.5F);
    EXPECT_EQ(values[1010], 1.0F) << "between parameters nothing changes";
    EXPECT_EQ(values.back(), 0.5F);
    EXPECT_TRUE(client.push_pull({.ticket = 0, .lr = 1}, gradient, values)) << "a repeated push";
    EXPECT_EQ(values[0], 0.5F);
    EXPECT_EQ(client.versions(), (std::vector<std::int64_t>{1, 1, 1}));
  }
}

TEST_F(ServiceTest, TwoReplicasOfASynchronousStepGetTheSameSum) {
  serve(2);
  std::vector<float> values[2];
  std::vector<std::thread> threads;
  threads.reserve(2);
  for (int replica = 0; replica < 2; ++replica)
    threads.emplace_back([&, replica] {
      Client client = join(replica, spec("sync"));
      values[replica].resize(spec("sync").elements);
      for (int step = 0; step < 3; ++step) {
        const std::vector<float> gradient(values[replica].size(), float(replica + 1) / 16);
        client.push_pull({.ticket = step,
                          .lr = 1,
                          .first_lane = replica,
                          .end_lane = replica + 1,
                          .samples = 1,
                          .step_samples = 2},
                         gradient, values[replica]);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[0][0], 1 - 3 * 3.0F / 16);
}

TEST_F(ServiceTest, AReplicaThatComesAgainFindsTheValuesOfItsStep) {
  serve(1);
  comm::SpaceSpec two = spec("sync");
  Client first = join(0, two);
  std::vector<float> values(two.elements), gradient(two.elements, 0.25F);
  {
    Client second = join(1, two);
    std::thread other([&] {
      first.push_pull({.ticket = 0, .lr = 1, .first_lane = 0, .end_lane = 1, .samples = 1, .step_samples = 2},
                      gradient, values);
    });
    std::vector<float> own(two.elements);
    second.push_pull({.ticket = 0, .lr = 1, .first_lane = 1, .end_lane = 2, .samples = 1, .step_samples = 2},
                     gradient, own);
    other.join();
  }
  // It restarts after its step was done, and can continue from before or after that step.
  Client again = join(1, two, 2);
  std::vector<float> own(two.elements);
  EXPECT_EQ(again.pull(own), 1);
  EXPECT_EQ(own[0], 0.5F);
  const bool repeated = again.push_pull(
      {.ticket = 0, .lr = 1, .first_lane = 1, .end_lane = 2, .samples = 1, .step_samples = 2}, gradient, own);
  EXPECT_TRUE(repeated);
  EXPECT_EQ(own[0], 0.5F) << "a step counts once";
}

TEST_F(ServiceTest, TicketsOfALostReplicaGoToAnother) {
  serve(1);
  comm::SpaceSpec few = spec("async");
  few.tickets = 3;
  Client first = join(0, few);
  auto second = std::make_unique<Client>(join(1, few));
  auto a = first.ask_ticket({});
  auto b = second->ask_ticket({});
  auto c = second->ask_ticket({});
  const std::int64_t own = *testing::ticket_of(first, a);
  std::vector<std::int64_t> lost{*testing::ticket_of(*second, b), *testing::ticket_of(*second, c)};
  second.reset();
  testing::do_ticket(first, own);
  auto d = first.ask_ticket({own});
  auto e = first.ask_ticket({});
  std::vector<std::int64_t> got{*testing::ticket_of(first, d), *testing::ticket_of(first, e)};
  std::ranges::sort(lost);
  std::ranges::sort(got);
  EXPECT_EQ(got, lost);
  for (const std::int64_t ticket : got) testing::do_ticket(first, ticket);
  auto f = first.ask_ticket(got);
  EXPECT_EQ(testing::ticket_of(first, f), std::nullopt);
}

TEST_F(ServiceTest, SharesOfAReplicaAreOnePush) {
  for (const int shares : {2, 3, 5}) {  // three slices: of five shares two are empty
    SetUp();
    exchanges_.clear();
    services_.clear();
    addresses_.clear();
    serve(2);
    std::vector<float> values(spec("async").elements), gradient(values.size(), 0.5F);
    std::vector<Client> clients;
    std::size_t next = 0;
    for (int share = 0; share < shares; ++share) {
      clients.push_back(join_share(0, spec("async"), share, shares));
      EXPECT_EQ(clients.back().own().begin, next);
      next += clients.back().own().count;
    }
    EXPECT_EQ(next, values.size());
    for (std::int64_t ticket = 0; ticket < 2; ++ticket)
      for (Client& client : clients) {
        const auto [begin, count] = client.own();
        client.push_pull({.ticket = ticket, .lr = 1}, std::span(gradient).subspan(begin, count),
                         std::span(values).subspan(begin, count));
        for (std::int64_t slice = client.first_slice(); slice < client.end_slice(); ++slice)
          EXPECT_EQ(client.answered()[std::size_t(slice)], ticket + 1);
      }
    EXPECT_EQ(std::ranges::count(values, 0.0F), 1000 + std::ptrdiff_t(values.size()) - 1024);
    std::vector<float> all(values.size());
    EXPECT_EQ(join(1, spec("async")).pull(all), 2);
    EXPECT_EQ(all, values);
  }
}

// No acknowledgement of the ticket was sent: it is dealt again, and counts in the slices that lack it.
TEST_F(ServiceTest, AReplicaThatIsLostBetweenTwoSharesCountsOnceInEverySlice) {
  serve(2);
  std::vector<float> values(spec("async").elements), gradient(values.size(), 0.5F);
  auto first = std::make_unique<Client>(join_share(0, spec("async"), 0, 2));
  auto second = std::make_unique<Client>(join_share(0, spec("async"), 1, 2));
  auto asked = first->ask_ticket({});
  const std::int64_t ticket = *testing::ticket_of(*first, asked);
  const auto [begin, count] = second->own();
  second->push_pull({.ticket = ticket, .lr = 1}, std::span(gradient).subspan(begin, count), {});
  first.reset();
  second.reset();
  Client other = join(1, spec("async"));
  auto again = other.ask_ticket({});
  EXPECT_EQ(*testing::ticket_of(other, again), ticket);
  std::ranges::fill(gradient, 0.25F);
  other.pull(values);
  EXPECT_TRUE(other.push_pull({.ticket = ticket, .lr = 1}, gradient, values)) << "some slices had it";
  EXPECT_EQ(values[0], 0.75F) << "what the lost replica did not push";
  EXPECT_EQ(values.back(), 0.5F) << "what it pushed";
  EXPECT_EQ(other.versions(), (std::vector<std::int64_t>{1, 1, 1}));
}

TEST_F(ServiceTest, ABadPushIsRefusedAndChangesNothing) {
  serve(1);
  Client client = join(0, spec("async"));
  std::vector<float> values(spec("async").elements), gradient(values.size(), 0.5F);
  gradient[5] = std::numeric_limits<float>::quiet_NaN();
  try {
    client.push_pull({.ticket = 0, .lr = 1}, gradient, values);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(error.message().find("replica 0"), std::string::npos) << error.message();
  }
  EXPECT_GE(services_[0]->refused(), 1);
  Client other = join(1, spec("async"));
  other.pull(values);
  EXPECT_EQ(values[5], 1.0F);
  EXPECT_THROW(other.push_pull({.ticket = 100, .lr = 1}, values, values), Error)
      << "a ticket that there is not";
}

TEST_F(ServiceTest, AReplicaThatIsNotWaitedForGoesOnWhereTheOthersAre) {
  serve(1);
  comm::SpaceSpec two = spec("sync");
  two.lanes = 2;
  two.spare_lanes = 1;
  two.lane_values = 1;
  Client fast = join(0, two), slow = join(1, two);
  std::vector<float> values(two.elements), gradient(two.elements, 0.25F), mean(1);
  const auto push = [&](Client& client, std::int64_t step, std::int64_t lane) {
    return client.push_pull(
        {.ticket = step, .lr = 1, .first_lane = lane, .end_lane = lane + 1, .samples = 1, .step_samples = 2},
        gradient, values);
  };
  for (std::int64_t step = 0; step < 5; ++step) {
    EXPECT_FALSE(push(fast, step, 0));
    EXPECT_EQ(fast.meet(step, 0, 1, {}, std::vector<float>{float(step)}, mean), step);
  }
  EXPECT_TRUE(push(slow, 0, 1)) << "the step went on without it";
  EXPECT_EQ(slow.meet(0, 1, 2, {}, std::vector<float>{100}, mean), 4);
  EXPECT_EQ(mean[0], 4) << "of the last step, in which it had no part";
  EXPECT_FALSE(push(slow, 5, 1)) << "now it is the first";
  EXPECT_EQ(slow.meet(5, 1, 2, {}, std::vector<float>{100}, mean), 5);
  EXPECT_EQ(mean[0], 100);
  EXPECT_EQ(values[0], 1 - 6 * 0.5F) << "one gradient of two counts twice";
}

// Messages of one connection come in any order.
TEST_F(ServiceTest, AStepThatWasDoneCountsBeforeTheDealerHearsOfItsTicket) {
  serve(1);
  comm::SpaceSpec bounded = spec("bounded");
  bounded.staleness = 0;
  Client other = join(1, bounded);
  auto asked = other.ask_ticket({});
  const std::int64_t held = *testing::ticket_of(other, asked);
  comm::ExchangeClient raw({.address = addresses_[0], .name = "replica 0"});
  const std::string text = comm::encode(bounded);
  using Kind = comm::StoreRequest::Kind;
  const auto send = [&](comm::StoreRequest message, const std::string& payload = {}) {
    message.incarnation = 1;
    return raw.send(comm::encode(message), std::as_bytes(std::span(payload)), {});
  };
  const std::uint64_t space = comm::decode_answer(send({.kind = Kind::kOpen}, text).wait(20s).header).space;
  const std::int64_t ticket =
      comm::decode_answer(send({.kind = Kind::kTake, .space = space}).wait(20s).header).ticket;
  for (const std::int64_t done : {ticket, held}) testing::do_ticket(other, done);
  // It has done one step; the message that names the step comes later.
  auto begins = send({.kind = Kind::kBegin, .space = space, .clock = 1});
  auto takes = send({.kind = Kind::kTake, .space = space, .done = {ticket}, .clock = 0});
  comm::decode_answer(takes.wait(20s).header);
  EXPECT_FALSE(begins.ready()) << "it is one ahead of the other";
  other.begin_step(0, {held});
  begins.wait(20s);
}

TEST_F(ServiceTest, NobodyIsFurtherAheadThanTheBoundAllows) {
  serve(1);
  comm::SpaceSpec bounded = spec("bounded");
  bounded.staleness = 1;
  Client fast = join(0, bounded);
  Client slow = join(1, bounded);
  auto first_of_slow = slow.ask_ticket({});
  const std::int64_t held = *testing::ticket_of(slow, first_of_slow);
  const auto do_one = [&] {
    auto handle = fast.ask_ticket({});
    const std::int64_t ticket = *testing::ticket_of(fast, handle);
    testing::do_ticket(fast, ticket);
    fast.begin_step(0, {ticket});
  };
  do_one();
  std::atomic<bool> began{false};
  std::thread waiting([&] {
    do_one();  // it would be two ahead
    began = true;
  });
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(began);
  testing::do_ticket(slow, held);
  slow.begin_step(0, {held});
  waiting.join();
  EXPECT_TRUE(began);
}

TEST_F(ServiceTest, WhoBeginsIsToldToFetchWhatOthersHaveDoneMeanwhile) {
  serve(1);
  comm::SpaceSpec bounded = spec("bounded");
  bounded.staleness = 0;
  Client one = join(0, bounded), other = join(1, bounded);
  const auto take = [](Client& client, const std::vector<std::int64_t>& done) {
    for (const std::int64_t ticket : done) testing::do_ticket(client, ticket);
    auto asked = client.ask_ticket(done);
    return *testing::ticket_of(client, asked);
  };
  const std::int64_t first = take(one, {}), of_other = take(other, {});
  EXPECT_FALSE(one.begin_step(first, {}));
  EXPECT_FALSE(other.begin_step(of_other, {}));
  const std::int64_t next_of_other = take(other, {of_other});
  const std::int64_t next = take(one, {first});
  EXPECT_TRUE(one.begin_step(next, {})) << "it fetched before the other had done its step, perhaps";
  EXPECT_TRUE(other.begin_step(next_of_other, {})) << "so did the other";
  // Alone, with no other replica's steps to see.
  std::deque<Client::Asked> none;
  other.rest({}, none);
  EXPECT_FALSE(one.begin_step(take(one, {next}), {}));
}

}  // namespace
}  // namespace distbelief::server
