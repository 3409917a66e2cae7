#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/testing/test_servers.h"
#include "distbelief/testing/test_tickets.h"

// Inputs of a decomposed model's sub-networks, over real servers on Unix sockets in this process.
namespace distbelief::server {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kTickets = 6;
// A piece and a bit.
constexpr std::size_t kInputBytes = comm::kMaxPayloadBytes + 4096;

// An unused server. While one exists, gRPC does not shut down between two tests, which occasionally takes it
// 10 s after large messages.
struct Idle final : comm::ExchangeServer::Handler {
  void handle(comm::ExchangeServer::Request) override {}
  void gone(std::uint64_t) override {}
};

class InputsTest : public testing::ServiceTest {
 protected:
  static void SetUpTestSuite() {
    static Idle handler;
    const auto path = std::filesystem::temp_directory_path() / ("db_idle_" + std::to_string(::getpid()));
    idle = std::make_unique<comm::ExchangeServer>(
        comm::ExchangeServer::Options{.address = {.target = "unix:" + path.string()}}, handler);
  }
  static void TearDownTestSuite() { idle.reset(); }
  static inline std::unique_ptr<comm::ExchangeServer> idle;

  // The spec of a second sub-network.
  static comm::SpaceSpec second() {
    comm::SpaceSpec spec = testing::ServiceTest::spec("async");
    spec.job = "test.sub1";
    spec.tickets = kTickets;
    spec.sub_network = 2;
    spec.input_bytes = kInputBytes;
    spec.window = 2;
    return spec;
  }
  // The output of the previous sub-network's replica for a ticket.
  static std::vector<float> output(std::int64_t ticket, float who = 0) {
    return std::vector<float>(kInputBytes / sizeof(float), float(ticket) + who);
  }
  static void put(Client& client, std::int64_t ticket, float who = 0) {
    const std::vector<float> values = output(ticket, who);
    client.put_input(ticket, std::as_bytes(std::span(values)));
  }
  static std::optional<float> input_of(Client& client, std::int64_t ticket) {
    const auto bytes = client.input(ticket);
    if (!bytes) return std::nullopt;
    EXPECT_EQ(bytes->size(), kInputBytes);
    std::vector<float> values(bytes->size() / sizeof(float));
    std::memcpy(values.data(), bytes->data(), bytes->size());
    for (const float value : values) EXPECT_EQ(value, values[0]);
    return values[0];
  }
  static std::int64_t take(Client& client, const std::vector<std::int64_t>& done = {}) {
    for (const std::int64_t ticket : done) testing::do_ticket(client, ticket);
    Client::Asked asked = client.ask_ticket(done);
    return testing::ticket_of(client, asked).value_or(-1);
  }
};

TEST_F(InputsTest, ATicketIsDealtWhenItsInputIsThereWhateverItsNumber) {
  serve(1);
  Client before = join(0, second()), replica = join(1, second());
  Client::Asked asked = replica.ask_ticket({});
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(asked.ready());
  put(before, 4);
  EXPECT_EQ(testing::ticket_of(replica, asked), 4);
  EXPECT_EQ(input_of(replica, 4), 4.0F);
  put(before, 1);
  EXPECT_EQ(take(replica, {4}), 1);
}

TEST_F(InputsTest, WhoBringsMoreThanThereIsRoomForWaits) {
  serve(2);
  Client before = join(0, second()), replica = join(1, second());
  put(before, 0);
  put(before, 1);
  std::atomic<bool> is_in = false;
  std::thread third([&] {
    put(before, 2);
    is_in = true;
  });
  EXPECT_EQ(take(replica), 0);
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(is_in) << "two are kept until one is done";
  EXPECT_EQ(take(replica, {0}), 1);
  third.join();
  EXPECT_EQ(take(replica), 2);
}

TEST_F(InputsTest, AWaitForRoomCanBeBrokenOff) {
  serve(1);
  std::atomic<bool> goes_on = true;
  const std::vector<float> initial(second().elements);
  Client before({.servers = addresses_, .spec = second(), .goes_on = [&] { return goes_on.load(); }},
                initial.data());
  put(before, 0);
  put(before, 1);
  auto third = std::async(std::launch::async, [&] { put(before, 2); });
  EXPECT_EQ(third.wait_for(100ms), std::future_status::timeout);
  goes_on = false;
  EXPECT_THROW(third.get(), Error);
}

TEST_F(InputsTest, AnInputThatComesTwiceCountsOnce) {
  serve(1);
  Client before = join(0, second()), other = join(2, second()), replica = join(1, second());
  put(before, 3);
  put(other, 3, 0.5F);  // it was given the same ticket
  EXPECT_EQ(take(replica), 3);
  EXPECT_EQ(input_of(replica, 3), 3.0F);
  put(before, 0);
  EXPECT_EQ(take(replica, {3}), 0);
  put(other, 3, 0.5F);  // long done
  put(before, 5);
  EXPECT_EQ(take(replica, {0}), 5) << "3 is not dealt again";
  EXPECT_FALSE(input_of(replica, 3)) << "and nobody needs to do it";
}

TEST_F(InputsTest, TheTicketOfALostReplicaGoesToAnotherWithItsInput) {
  serve(1);
  Client before = join(0, second()), left = join(1, second());
  put(before, 2);
  {
    Client lost = join(3, second());
    EXPECT_EQ(take(lost), 2);
  }
  EXPECT_EQ(take(left), 2);
  EXPECT_EQ(input_of(left, 2), 2.0F);
}

TEST_F(InputsTest, WhatALostReplicaBroughtInPartIsNotMixedWithAnothers) {
  serve(1);
  Client replica = join(1, second()), other = join(2, second());
  {
    const std::vector<float> values = output(0);
    // Sends only the first piece: the connection ends before the second.
    comm::ExchangeClient wire({.address = addresses_[0], .name = "replica 0"});
    const auto ask = [&](const comm::StoreRequest& message, std::span<const std::byte> payload) {
      return comm::decode_answer(wire.send(comm::encode(message), payload, {}).wait(5s).header);
    };
    const std::string spec = comm::encode(second());
    const std::uint64_t space =
        ask({.kind = comm::StoreRequest::Kind::kOpen}, std::as_bytes(std::span(spec))).space;
    comm::StoreRequest piece{.kind = comm::StoreRequest::Kind::kPutInput, .space = space};
    piece.incarnation = 1;
    piece.pieces = 2;
    ask(piece, std::as_bytes(std::span(values)).first(comm::kMaxPayloadBytes));
  }
  put(other, 0, 0.25F);
  EXPECT_EQ(take(replica), 0);
  EXPECT_EQ(input_of(replica, 0), 0.25F);
}

TEST_F(InputsTest, ADeskThatTakesOverHasTheInputs) {
  serve(2);
  Client before = join(0, second()), replica = join(1, second());
  put(before, 0);
  put(before, 1);
  EXPECT_EQ(take(replica), 0);
  lose_server(map_.desk().primary);
  // Tickets that were dealt and are not known to be done are dealt again.
  EXPECT_EQ(take(replica), 0);
  EXPECT_EQ(input_of(replica, 0), 0.0F);
  EXPECT_EQ(take(replica, {0}), 1);
  EXPECT_EQ(input_of(replica, 1), 1.0F);
}

TEST_F(InputsTest, AServerThatComesLaterIsGivenTheInputs) {
  serve(2);
  Client before = join(0, second()), replica = join(1, second());
  put(before, 0);
  lose_server(map_.desk().backup);
  put(before, 1);
  add_server();
  publish(with_newcomer(map_, {.id = 2, .target = addresses_[2].target}));
  follow_plan({}, [] {});
  std::vector<float> values(second().elements);
  replica.pull(values);  // learns of the newcomer, later the only server left
  lose_server(map_.desk().primary);
  EXPECT_EQ(map_.desk().primary, 2);
  for (const std::int64_t ticket : {0, 1}) {
    EXPECT_EQ(take(replica), ticket);
    EXPECT_EQ(input_of(replica, ticket), float(ticket));
  }
}

TEST_F(InputsTest, TheEndIsToldWhenEveryTicketIsDone) {
  serve(1);
  comm::SpaceSpec spec = second();
  spec.tickets = 1;
  Client before = join(0, spec), replica = join(1, spec);
  std::atomic<bool> is_over = false;
  std::thread waiting([&] {
    before.await_done();
    is_over = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(is_over);
  {
    Client another = join(2, spec);
    put(another, 0);
  }
  EXPECT_EQ(take(replica), 0);
  EXPECT_EQ(take(replica, {0}), -1);
  waiting.join();
}

TEST_F(InputsTest, WhoWaitsForTheFirstTicketsHearsWhenAllOfThemAreDone) {
  serve(1);
  comm::SpaceSpec spec = testing::ServiceTest::spec("async");
  spec.tickets = 5;
  Client first = join(0, spec), later = join(1, spec);
  std::atomic<bool> is_over = false;
  std::thread waiting([&] {
    later.await_done(2);
    is_over = true;
  });
  EXPECT_EQ(take(first), 0);
  EXPECT_EQ(take(first), 1);
  EXPECT_EQ(take(first, {1}), 2);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(is_over) << "ticket 0 is not done";
  EXPECT_EQ(take(first, {0}), 3);
  waiting.join();
  EXPECT_EQ(take(later), 4);
  EXPECT_THROW(later.await_done(6), Error);
}

TEST_F(InputsTest, TheStatisticsOfTheLastStepAreKeptWithTheBackup) {
  serve(2);
  comm::SpaceSpec spec = second();
  spec.lane_values = 3;
  Client replica = join(0, spec), other = join(1, spec);
  const auto put = [&](Client& client, std::int64_t steps, float value) {
    client.put_statistics(steps, std::vector<float>(3, value));
  };
  const auto found = [&] {
    std::vector<float> values(3);
    other.statistics(values);
    return values;
  };
  put(replica, 0, 0.5F);
  put(other, 0, 0.75F);  // a restarted replica begins with the existing values
  EXPECT_EQ(found(), std::vector<float>(3, 0.5F));
  put(replica, 5, 5);
  put(other, 4, 4);  // it was slower
  EXPECT_EQ(found(), std::vector<float>(3, 5.0F));
  lose_server(map_.desk().primary);
  EXPECT_EQ(found(), std::vector<float>(3, 5.0F));
  EXPECT_THROW(put(replica, 6, std::numeric_limits<float>::infinity()), Error);
  EXPECT_THROW(replica.put_statistics(6, std::vector<float>(2)), Error);
  for (const std::int64_t steps : {kTickets + 1, std::int64_t{1} << 62, std::int64_t{-1}})
    EXPECT_THROW(put(replica, steps, 7), Error) << steps << " steps, of which there are not so many";
  EXPECT_EQ(found(), std::vector<float>(3, 5.0F));
}

TEST_F(InputsTest, RefusesInputsThatCannotBe) {
  serve(1);
  Client before = join(0, second());
  const std::vector<float> small(3), wrong(4, std::numeric_limits<float>::quiet_NaN()),
      large(kInputBytes / sizeof(float) + 1);
  before.put_input(0, std::as_bytes(std::span(small)));
  EXPECT_THROW(before.put_input(1, std::as_bytes(std::span(wrong))), Error);
  EXPECT_THROW(before.put_input(1, std::as_bytes(std::span(large))), Error);
  EXPECT_THROW(before.put_input(kTickets, std::as_bytes(std::span(small))), Error);
  comm::SpaceSpec plain = testing::ServiceTest::spec("async");
  Client other = join(5, plain);
  EXPECT_THROW(other.put_input(0, std::as_bytes(std::span(small))), Error) << "its work waits for none";
  comm::SpaceSpec unsound = second();
  unsound.window = 0;
  EXPECT_THROW(join(6, unsound), Error);
}

}  // namespace
}  // namespace distbelief::server
