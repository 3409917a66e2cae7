#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <stop_token>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/server/client/client.h"
#include "distbelief/server/client/map_plan.h"
#include "distbelief/server/service/service.h"
#include "distbelief/testing/test_servers.h"
#include "distbelief/testing/test_tickets.h"

// Servers that are lost, that join and leave, and that do not follow their primary.
namespace distbelief::server {
namespace {

using testing::ServiceTest;
using namespace std::chrono_literals;

TEST_F(ServiceTest, ALostServerLosesNothingAndANewOneIsFilled) {
  for (const char* const mode : {"async", "sync"}) {
    TearDown();
    SetUp();
    addresses_.clear();
    settled_ = 0;
    serve(2);
    comm::SpaceSpec one = spec(mode);
    one.lanes = 1;
    one.lane_values = 3;
    one.optimizer.momentum = 0.9;
    Client client = join(0, one);
    std::vector<float> values(one.elements), gradient(one.elements, 0.01F), mean(3);
    float expected = 1, velocity = 0;
    const auto step = [&](std::int64_t ticket) {
      const bool repeated = client.push_pull(
          {.ticket = ticket, .lr = 1, .first_lane = 0, .end_lane = 1, .samples = 1, .step_samples = 1},
          gradient, values);
      EXPECT_FALSE(repeated) << ticket;
      if (one.mode == "sync") client.meet(ticket, 0, 1, {}, std::vector<float>{1, 2, float(ticket)}, mean);
      velocity = ticket == 0 ? 0.01F : 0.9F * velocity + 0.01F;
      expected -= velocity;
      EXPECT_FLOAT_EQ(values[0], expected) << mode << " " << ticket;
      EXPECT_EQ(values.back(), values[0]);
      EXPECT_EQ(client.versions(), std::vector<std::int64_t>(3, ticket + 1));
    };
    for (int i = 0; i < 3; ++i) step(i);
    lose_server(0);
    for (int i = 3; i < 6; ++i) step(i);
    add_server();
    publish(next_step(with_newcomer(map_, {.id = 2, .target = addresses_[2].target}), {})->map);
    for (int i = 6; i < 9; ++i) step(i);
    await_settled(1);
    publish(with_settled(map_));
    for (int i = 9; i < 12; ++i) step(i);
    lose_server(1);
    for (int i = 12; i < 15; ++i) step(i);
    EXPECT_EQ(client.map().servers.size(), 1U);
    if (one.mode == "sync") {
      EXPECT_EQ(mean, (std::vector<float>{1, 2, 14}));
      addresses_ = {addresses_[2]};
      Client again = join(0, one, 2);
      EXPECT_EQ(again.meeting_step(), 15);
      EXPECT_EQ(again.pull(values, 14), 14);
    }
  }
}

TEST_F(ServiceTest, ServersComeAndGoWhileReplicasPush) {
  for (const char* mode : {"async", "sync"}) {
    SetUp();
    exchanges_.clear();
    services_.clear();
    addresses_.clear();
    serve(1);
    comm::SpaceSpec one = spec(mode);
    one.elements = 5 * comm::kSliceElements;
    one.parameters = {{.begin = 0, .count = one.elements}};
    one.lanes = 1;
    one.lane_values = 1;
    Client client = join(0, one);
    std::vector<float> values(one.elements), gradient(one.elements, 1.0F), mean(1);
    std::int64_t ticket = 0;
    const auto steps = [&] {
      for (int i = 0; i < 3; ++i, ++ticket) {
        EXPECT_FALSE(client.push_pull(
            {.ticket = ticket, .lr = 1, .first_lane = 0, .end_lane = 1, .samples = 1, .step_samples = 1},
            gradient, values));
        if (one.mode == "sync") client.meet(ticket, 0, 1, {}, std::vector<float>{float(ticket)}, mean);
        EXPECT_EQ(values, std::vector<float>(values.size(), float(-ticket))) << mode;
      }
    };
    steps();
    for (int id = 1; id <= 2; ++id) {
      add_server();
      publish(with_newcomer(map_, {.id = id, .target = addresses_[std::size_t(id)].target}));
      follow_plan({}, steps);
      steps();
    }
    EXPECT_EQ(std::ranges::count(map_.parts, 2, &ServerMap::Part::primary), 21);
    follow_plan({0}, steps);
    EXPECT_FALSE(map_.has(0));
    exchanges_[0].reset();
    services_[0].reset();
    steps();
    lose_server(1);
    steps();
    EXPECT_EQ(client.map().servers.size(), 1U);
    EXPECT_EQ(client.versions(), std::vector<std::int64_t>(5, ticket));
  }
}

class Refuser final : public comm::ExchangeServer::Handler {
 public:
  void handle(comm::ExchangeServer::Request request) override {
    request.refuse(ErrorCode::kInternal, "no space left on device");
  }
  void gone(std::uint64_t) override {}
};

// Both servers live: only they know that the backup lacks the primary's updates.
TEST_F(ServiceTest, ABackupThatDoesNotFollowIsTold) {
  Refuser refuser;
  const std::string other = "unix:" + (folder_ / "other").string();
  const std::string target = "unix:" + (folder_ / "primary").string();
  const comm::ExchangeServer backup({.address = {.target = other}}, refuser);
  std::atomic<int> apart{-1};
  Service service({.id = 0, .on_apart = [&](int server, std::int64_t) { apart = server; }});
  comm::ExchangeServer exchange({.address = {.target = target}}, service);
  service.set_map({.epoch = 1,
                   .servers = {{.id = 0, .target = target}, {.id = 7, .target = other}},
                   .parts = std::vector<ServerMap::Part>(kParts, {.primary = 0, .backup = 7})});
  comm::ExchangeClient replica({.address = {.target = target}, .name = "replica 0"});
  const std::string text = comm::encode(spec("async"));
  replica
      .send(comm::encode(comm::StoreRequest{.kind = comm::StoreRequest::Kind::kOpen}),
            std::as_bytes(std::span(text)), {})
      .wait(20s);
  for (int i = 0; i < 500 && apart < 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(apart, 7);
}

// The newcomer refuses everything: the thread that fills it waits until a map no longer has that server.
TEST_F(ServiceTest, AFillThatIsStuckKeepsNeitherMapsNorJobsBack) {
  Refuser refuser;
  const std::string other = "unix:" + (folder_ / "other").string();
  const std::string target = "unix:" + (folder_ / "primary").string();
  const comm::ExchangeServer newcomer({.address = {.target = other}}, refuser);
  std::atomic<int> apart{0}, settled{0};
  Service service({.id = 0,
                   .on_settled = [&](std::int64_t epoch) { settled = int(epoch); },
                   .on_apart = [&](int, std::int64_t) { ++apart; }});
  comm::ExchangeServer exchange({.address = {.target = target}}, service);
  ServerMap map = first_map({{.id = 0, .target = target}});
  service.set_map(map);
  comm::ExchangeClient replica({.address = {.target = target}, .name = "replica 0"});
  const auto open = [&](const std::string& job) {
    comm::SpaceSpec one = spec("async");
    one.job = job;
    const std::string text = comm::encode(one);
    replica
        .send(comm::encode(comm::StoreRequest{.kind = comm::StoreRequest::Kind::kOpen}),
              std::as_bytes(std::span(text)), {})
        .wait(20s);
  };
  open("first");
  const auto publish_filling = [&](std::int64_t epoch) {
    map.epoch = epoch;
    map.servers = {{.id = 0, .target = target}, {.id = 7, .target = other}};
    map.parts.assign(kParts, {.primary = 0, .filling = 7});
    service.set_map(map);
  };
  publish_filling(2);
  for (int i = 0; i < 500 && apart == 0; ++i) std::this_thread::sleep_for(10ms);
  ASSERT_GE(apart, 1) << "it is stuck now";
  auto next = std::async(std::launch::async, [&] { publish_filling(3); });
  ASSERT_EQ(next.wait_for(20s), std::future_status::ready);
  open("second");
  map = without_server(map, 7);
  service.set_map(map);
  EXPECT_EQ(settled, 0);
}

// Answers states of slices one at a time, and counts those that arrive meanwhile.
class SlowNewcomer final : public comm::ExchangeServer::Handler {
 public:
  void handle(comm::ExchangeServer::Request request) override {
    const comm::StoreRequest message = comm::decode_request(request.header());
    if (message.kind != comm::StoreRequest::Kind::kInstall)
      return request.answer(comm::encode(comm::StoreAnswer{}));
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(request));
    most_ = std::max(most_, kept_.size());
  }
  void gone(std::uint64_t) override {}
  std::size_t most() {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  void answer_all(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(5ms);
      const std::lock_guard lock(mutex_);
      if (kept_.empty()) continue;
      kept_.front().answer(comm::encode(comm::StoreAnswer{}));
      kept_.pop_front();
    }
  }
  std::mutex mutex_;
  std::deque<comm::ExchangeServer::Request> kept_;
  std::size_t most_ = 0;
  std::jthread thread_{[this](const std::stop_token& stop) { answer_all(stop); }};
};

TEST_F(ServiceTest, ANewcomerIsFilledWithAFewSlicesAtATime) {
  SlowNewcomer slow;
  const std::string other = "unix:" + (folder_ / "other").string();
  const comm::ExchangeServer newcomer({.address = {.target = other}}, slow);
  serve(1);
  comm::SpaceSpec large = spec("async");
  large.elements = 40 * comm::kSliceElements;
  Client client = join(0, large);
  ServerMap map = with_newcomer(map_, {.id = 7, .target = other});
  for (ServerMap::Part& part : map.parts) part.filling = 7;
  services_[0]->set_map(map);
  await_settled(1);
  EXPECT_GE(slow.most(), 1U);
  EXPECT_LE(slow.most(), 4U);
}

// No replica is left to repeat work that a new scheduler does not know to be done.
TEST_F(ServiceTest, ThatAllIsDoneIsNotLostWithTheDesk) {
  for (int round = 0; round < 5; ++round) {
    TearDown();
    SetUp();
    addresses_.clear();
    settled_ = 0;
    serve(2);
    comm::SpaceSpec few = spec("async");
    few.tickets = 20;
    Client other = join(1, few);
    {
      Client last = join(0, few);
      std::vector<std::int64_t> done;
      for (;;) {
        auto asked = last.ask_ticket(done);
        const std::optional<std::int64_t> ticket = testing::ticket_of(last, asked);
        if (!ticket) break;
        testing::do_ticket(last, *ticket);
        done = {*ticket};
      }
    }
    lose_server(map_.desk().primary);
    other.await_done();
  }
}

// The replica opened the job only at the scheduler: the backup knows of it, and that it left, only from
// there.
TEST_F(ServiceTest, AReplicaThatLeftIsNotWaitedForAtTheNextDesk) {
  serve(2);
  comm::SpaceSpec bounded = spec("bounded");
  bounded.staleness = 0;
  Client client = join(0, bounded);
  Client::Asked first = client.ask_ticket({});
  std::int64_t ticket = *testing::ticket_of(client, first);
  {
    comm::ExchangeClient other(
        {.address = addresses_[std::size_t(map_.desk().primary)], .name = "replica 1"});
    const std::string text = comm::encode(bounded);
    const auto ask = [&](comm::StoreRequest message, std::span<const char> payload) {
      message.replica = message.incarnation = 1;
      return comm::decode_answer(
          other.send(comm::encode(message), std::as_bytes(payload), {}).wait(20s).header);
    };
    const std::uint64_t space = ask({.kind = comm::StoreRequest::Kind::kOpen}, text).space;
    EXPECT_EQ(ask({.kind = comm::StoreRequest::Kind::kTake, .space = space}, {}).ticket, 1);
  }
  for (int i = 0; i < 3; ++i) {  // the other has left: no wait
    testing::do_ticket(client, ticket);
    client.begin_step(0, {ticket});
    Client::Asked next = client.ask_ticket({});
    ticket = *testing::ticket_of(client, next);
  }
  lose_server(map_.desk().primary);
  for (int i = 0; i < 3; ++i) {
    Client::Asked next = client.ask_ticket({});
    ticket = *testing::ticket_of(client, next);
    testing::do_ticket(client, ticket);
    client.begin_step(0, {ticket});
  }
}

// The first request was lost with the scheduler; the second went to its successor and got the only ticket.
TEST_F(ServiceTest, AQuestionThatWasLostDoesNotHideTheAnswerToALaterOne) {
  serve(2);
  comm::SpaceSpec one = spec("async");
  one.tickets = 1;
  Client other = join(0, one), replica = join(1, one);
  Client::Asked held = other.ask_ticket({});
  EXPECT_EQ(testing::ticket_of(other, held), 0);
  std::deque<Client::Asked> asked;
  asked.push_back(replica.ask_ticket({}));
  lose_server(map_.desk().primary);
  std::vector<float> values(one.elements);
  replica.pull(values);  // it learns of the new map
  asked.push_back(replica.ask_ticket({}));
  for (int i = 0; i < 500 && !asked.back().ready(); ++i) std::this_thread::sleep_for(10ms);
  ASSERT_TRUE(asked.back().ready()) << "the ticket is dealt again";
  EXPECT_EQ(replica.next_ticket(asked), 0);
  ASSERT_EQ(asked.size(), 1U);
  testing::do_ticket(replica, 0);
  asked.push_back(replica.ask_ticket({0}));
  EXPECT_EQ(replica.next_ticket(asked), std::nullopt);
}

}  // namespace
}  // namespace distbelief::server
