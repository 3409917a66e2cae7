#include "distbelief/server/client/client.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/server/client/client_handle.h"
#include "distbelief/server/shard/update_log.h"
#include "distbelief/testing/test_servers.h"
#include "distbelief/testing/test_tickets.h"

// Pushes and pulls in flight, and waits that end.
namespace distbelief::server {
namespace {

using testing::ServiceTest;
using namespace std::chrono_literals;

std::vector<float> stretch(std::span<const float> all, const Client& client, Client::Slices slices) {
  const comm::SpaceSpec::Stretch at = client.elements_of(slices);
  return {all.begin() + std::ptrdiff_t(at.begin), all.begin() + std::ptrdiff_t(at.begin + at.count)};
}

TEST_F(ServiceTest, HandlesOfDifferentSlicesAreUnderWayAtOnceAndWaitedForInAnyOrder) {
  for (const bool shares_memory : {true, false}) {
    TearDown();
    SetUp();
    addresses_.clear();
    serve(2);
    Client client = join(0, spec("async"), 1, shares_memory);
    std::vector<float> gradient(spec("async").elements);
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = float(i % 97) / 97;
    const Client::Slices head{0, 1}, tail{1, 3};
    const std::vector<float> of_head = stretch(gradient, client, head);
    const std::vector<float> of_tail = stretch(gradient, client, tail);
    std::vector<float> new_head(of_head.size()), new_tail(of_tail.size());
    Client::Handle first = client.start_push_pull({.ticket = 0, .lr = 1}, of_head, new_head, head);
    Client::Handle second = client.start_push_pull({.ticket = 0, .lr = 1}, of_tail, new_tail, tail);
    EXPECT_FALSE(second.wait().repeated);
    EXPECT_EQ(first.wait().version, 1);
    EXPECT_EQ(client.versions(), std::vector<std::int64_t>(3, 1));
    for (std::size_t i = 0; i < new_tail.size(); ++i) ASSERT_EQ(new_tail[i], 1 - of_tail[i]) << i;
    EXPECT_EQ(new_head[5], 1 - of_head[5]);
    EXPECT_TRUE(client.push({.ticket = 0, .lr = 1}, gradient));  // slices have it
  }
}

// Both need the shared memory of the slice: one goes over the stream.
TEST_F(ServiceTest, APullOfSlicesWhosePushIsUnderWayHasTheValuesBeforeOrAfterIt) {
  serve(1);
  Client client = join(0, spec("async"));
  const std::vector<float> gradient(spec("async").elements, 0.5F);
  for (std::int64_t ticket = 0; ticket < 20; ++ticket) {
    std::vector<float> values(gradient.size());
    Client::Handle pushed = client.start_push({.ticket = ticket, .lr = 1}, gradient);
    Client::Handle pulled = client.start_pull(values);
    const std::int64_t version = pulled.wait().version;
    EXPECT_FALSE(pushed.wait().repeated);
    EXPECT_TRUE(version == ticket || version == ticket + 1);
    for (std::int64_t slice = 0; slice < 3; ++slice) {
      const std::size_t at = std::size_t(slice) * comm::kSliceElements;
      ASSERT_EQ(values[at], 1 - 0.5F * float(client.versions()[std::size_t(slice)])) << ticket;
      ASSERT_EQ(values[at + 500], values[at]);
    }
  }
}

TEST_F(ServiceTest, AServerLostBetweenStartAndWaitIsMadeUpFor) {
  for (const bool shares_memory : {true, false}) {
    TearDown();
    SetUp();
    addresses_.clear();
    serve(2);
    Client one = join(0, spec("sync"), 1, shares_memory), other = join(1, spec("sync"), 1, shares_memory);
    const std::vector<float> gradient(spec("sync").elements, 0.25F);
    std::vector<float> values(gradient.size()), others(gradient.size());
    const auto lane = [](std::int64_t lane) {
      return Client::Push{
          .ticket = 0, .lr = 1, .first_lane = lane, .end_lane = lane + 1, .samples = 1, .step_samples = 2};
    };
    Client::Handle waits = one.start_push_pull(lane(0), gradient, values);
    EXPECT_FALSE(waits.ready());  // for the other lane
    lose_server(0);
    Client::Handle last = other.start_push_pull(lane(1), gradient, others);
    std::thread meanwhile([&] { last.wait(); });
    EXPECT_EQ(waits.wait().version, 1);
    meanwhile.join();
    for (const std::size_t i : {std::size_t{0}, std::size_t{2000}, comm::kSliceElements, values.size() - 1})
      EXPECT_EQ(values[i], 0.5F) << i;
    EXPECT_EQ(others, values);
  }
}

TEST_F(ServiceTest, AHandleThatIsDroppedLeavesTheClientUsable) {
  serve(1);
  comm::SpaceSpec two = spec("sync");
  Client client = join(0, two);
  std::vector<float> values(two.elements);
  {
    const std::vector<float> gradient(two.elements, 1.0F);
    const Client::Handle dropped = client.start_push_pull(
        {.ticket = 0, .lr = 1, .first_lane = 0, .end_lane = 1, .samples = 1, .step_samples = 2}, gradient,
        values);
    EXPECT_FALSE(dropped.ready());
  }
  EXPECT_EQ(client.pull(values), 0);
  EXPECT_EQ(values, std::vector<float>(values.size(), 1.0F));
}

// A resting replica's tickets and requests go to others, which do not wait for it.
class RestTest : public testing::ServiceTest {
 protected:
  static comm::SpaceSpec bounded() {
    comm::SpaceSpec one = spec("bounded");
    one.staleness = 1;
    one.tickets = 6;
    return one;
  }
  static std::optional<std::int64_t> take(Client& client, const std::vector<std::int64_t>& done = {}) {
    for (const std::int64_t ticket : done) testing::do_ticket(client, ticket);
    std::deque<Client::Asked> asked;
    asked.push_back(client.ask_ticket(done));
    return client.next_ticket(asked);
  }
};

TEST_F(RestTest, OthersGetItsTicketsAndDoNotWaitForIt) {
  serve(1);
  Client one = join(0, bounded()), other = join(1, bounded());
  EXPECT_EQ(take(one), 0);
  EXPECT_EQ(take(other), 1);
  std::deque<Client::Asked> asked;
  for (int i = 0; i < 2; ++i) asked.push_back(other.ask_ticket({}));  // 2 and 3, in their order or not
  other.rest({}, asked);
  EXPECT_TRUE(asked.empty());
  std::vector<std::int64_t> done;
  std::int64_t ticket = 0;
  for (int i = 0; i < 5; ++i) {  // alone, and beyond the bound
    one.begin_step(0, {});
    done.push_back(ticket);
    ticket = *take(one, {ticket});
  }
  EXPECT_EQ(done, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  const auto clocks_of_other = [&](LogLine::Kind kind) {
    std::vector<std::int64_t> clocks;
    for (const LogLine& line : read_log(folder_ / "logs" / "0-server0.jsonl"))
      if (line.kind == kind && line.update.replica == 1) clocks.push_back(line.clock);
    return clocks;
  };
  EXPECT_GE(clocks_of_other(LogLine::Kind::kLeft).size(), 1U);
  std::deque<Client::Asked> again;
  const std::size_t joined = clocks_of_other(LogLine::Kind::kJoined).size();
  again.push_back(other.ask_ticket({}));
  for (int i = 0; i < 2000 && clocks_of_other(LogLine::Kind::kJoined).size() == joined; ++i)
    std::this_thread::sleep_for(5ms);  // its request may overtake the other's next message
  EXPECT_EQ(take(one, {ticket}), std::nullopt);
  EXPECT_EQ(other.next_ticket(again), std::nullopt);
  ASSERT_EQ(clocks_of_other(LogLine::Kind::kJoined).size(), joined + 1);
  EXPECT_EQ(clocks_of_other(LogLine::Kind::kJoined).back(), 5);  // the slowest replica's clock
}

TEST_F(RestTest, ADeskThatTakesOverDoesNotWaitForItEither) {
  serve(2);
  Client one = join(0, bounded()), other = join(1, bounded());
  EXPECT_EQ(take(one), 0);
  EXPECT_EQ(take(other), 1);
  std::deque<Client::Asked> asked;
  other.rest({}, asked);
  lose_server(map_.desk().primary);
  std::int64_t ticket = 0;
  for (int i = 0; i < 4; ++i) {
    one.begin_step(0, {});
    ticket = *take(one, {ticket});
  }
}

TEST_F(RestTest, AQuestionThatWaitsIsAnswered) {
  serve(1);
  comm::SpaceSpec few = bounded();
  few.tickets = 1;
  Client one = join(0, few), other = join(1, few);
  EXPECT_EQ(take(one), 0);
  std::deque<Client::Asked> asked;
  asked.push_back(other.ask_ticket({}));
  other.rest({}, asked);  // would not return before the request is answered
  EXPECT_EQ(take(one, {0}), std::nullopt);
}

// A server as if on another host: over TLS, with several connections for slices.
class FarServerTest : public testing::ServiceTest {
 protected:
  void serve_far() {
    comm::make_certificates(folder_ / "certificates", std::chrono::days(1));
    services_.push_back(std::make_unique<Service>(Service::Options{.logs = folder_ / "logs"}));
    listen();
    services_[0]->set_map(first_map({{.id = 0, .target = addresses_[0].target}}));
  }
  void listen(const std::string& target = "127.0.0.1:0") {
    exchanges_.clear();
    exchanges_.push_back(std::make_unique<comm::ExchangeServer>(
        comm::ExchangeServer::Options{.address =
                                          comm::secure_address(target, folder_ / "certificates", "server")},
        *services_[0]));
    addresses_ = {comm::secure_address(exchanges_[0]->target(), folder_ / "certificates", "worker")};
  }
};

TEST_F(FarServerTest, SlicesGoOverSeveralConnectionsAndCountOnceEach) {
  serve_far();
  Client client = join(0, spec("async"));
  // One connection to ask for the map, before server numbers are known.
  EXPECT_EQ(exchanges_[0]->counts().connections, 4U);
  const std::vector<float> gradients(client.elements_of(client.share()).count, 0.5F);
  std::vector<float> values(gradients.size());
  for (std::int64_t ticket = 0; ticket < 5; ++ticket)
    EXPECT_FALSE(client.push_pull({.ticket = ticket, .lr = 1}, gradients, values));
  EXPECT_TRUE(client.push({.ticket = 4, .lr = 1}, gradients)) << "each slice has it, whichever way it came";
  EXPECT_EQ(client.pull(values), 5);
  EXPECT_EQ(values[0], -1.5F);
  EXPECT_EQ(values.back(), -1.5F);
}

TEST_F(FarServerTest, AllConnectionsAreMadeAgainWhenTheyWereCut) {
  serve_far();
  Client client = join(0, spec("async"));
  const std::vector<float> gradients(client.elements_of(client.share()).count, 0.5F);
  std::vector<float> values(gradients.size());
  client.push({.ticket = 0, .lr = 1}, gradients);
  exchanges_[0]->close();
  listen(addresses_[0].target);
  EXPECT_FALSE(client.push_pull({.ticket = 1, .lr = 1}, gradients, values));
  EXPECT_EQ(values[0], 0.0F);
  EXPECT_EQ(exchanges_[0]->counts().connections, 3U);
}

class DeadlineTest : public testing::ServiceTest {
 protected:
  static constexpr std::chrono::milliseconds kDeadline{400};
  Client impatient(int replica, const comm::SpaceSpec& spec, std::function<bool()> goes_on = {}) {
    const std::vector<float> initial(spec.elements, 1.0F);
    return Client({.servers = addresses_,
                   .spec = spec,
                   .replica = replica,
                   .deadline = kDeadline,
                   .goes_on = std::move(goes_on)},
                  initial.data());
  }
  static ErrorCode code_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  }
};

TEST_F(DeadlineTest, WaitsEndWhenNoServerAnswersAnyMore) {
  serve(2);
  comm::SpaceSpec bounded = spec("bounded");
  Client client = impatient(0, bounded);
  std::deque<Client::Asked> asked;
  asked.push_back(client.ask_ticket({}));
  EXPECT_EQ(client.next_ticket(asked), 0);
  for (const auto& exchange : exchanges_) exchange->close();
  EXPECT_EQ(code_of([&] { client.begin_step(0, {}); }), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of([&] { client.await_done(); }), ErrorCode::kUnavailable);
  asked.push_back(client.ask_ticket({}));
  EXPECT_EQ(code_of([&] { client.next_ticket(asked); }), ErrorCode::kUnavailable);
}

TEST_F(DeadlineTest, AWaitForOthersLastsLongerThanTheDeadlineWhileServersLive) {
  serve(2);
  comm::SpaceSpec one = spec("async");
  one.tickets = 1;
  Client client = impatient(0, one);
  Client slow = join(1, one);
  std::deque<Client::Asked> asked;
  asked.push_back(slow.ask_ticket({}));
  EXPECT_EQ(slow.next_ticket(asked), 0);
  std::thread later([&] {
    std::this_thread::sleep_for(3 * kDeadline);
    testing::do_ticket(slow, 0);
    asked.push_back(slow.ask_ticket({0}));
    EXPECT_EQ(slow.next_ticket(asked), std::nullopt);
  });
  const auto begin = std::chrono::steady_clock::now();
  client.await_done();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 2 * kDeadline);
  later.join();
}

// All servers that the client knew are replaced while it is idle.
TEST_F(DeadlineTest, AClientThatSleptFindsServersWhereItIsTold) {
  serve(2);
  const comm::SpaceSpec one = spec("async");
  const std::vector<float> initial(one.elements, 1.0F), gradient(one.elements, 0.5F);
  std::vector<comm::ControlAddress> present;
  Client told({.servers = addresses_,
               .spec = one,
               .deadline = std::chrono::seconds(20),
               .find_servers = [&] { return present; }},
              initial.data());
  Client left_alone = impatient(1, one);
  EXPECT_FALSE(told.push({.ticket = 0, .lr = 1}, gradient));
  for (const int lost : {0, 1}) {
    lose_server(lost);
    add_server();
    const int id = lost + 2;
    publish(with_newcomer(map_, {.id = id, .target = addresses_[std::size_t(id)].target}));
    follow_plan({}, [] {});
  }
  present = {addresses_[2], addresses_[3]};
  std::vector<float> values(one.elements);
  EXPECT_EQ(told.pull(values), 1);
  EXPECT_EQ(values[0], 0.5F);
  EXPECT_TRUE(told.map().has(2) && told.map().has(3));
  try {
    left_alone.pull(values);
    ADD_FAILURE() << "nobody told it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_NE(error.message().find("join again"), std::string::npos) << error.message();
  }
}

TEST_F(DeadlineTest, AWaitForATurnIsBrokenOffWhenTheCallerDoesNotGoOn) {
  serve(1);
  comm::SpaceSpec bounded = spec("bounded");
  Client slow = join(1, bounded);
  std::deque<Client::Asked> slow_asked;
  slow_asked.push_back(slow.ask_ticket({}));
  slow.next_ticket(slow_asked);
  std::atomic<bool> goes_on = true;
  Client client = impatient(0, bounded, [&] { return goes_on.load(); });
  std::deque<Client::Asked> asked;
  asked.push_back(client.ask_ticket({}));
  const std::optional<std::int64_t> ticket = client.next_ticket(asked);
  client.begin_step(0, {});
  std::thread stop([&] {
    std::this_thread::sleep_for(50ms);
    goes_on = false;
  });
  testing::do_ticket(client, *ticket);
  EXPECT_EQ(code_of([&] { client.begin_step(0, {*ticket}); }), ErrorCode::kTimeout);
  stop.join();
}

}  // namespace
}  // namespace distbelief::server
