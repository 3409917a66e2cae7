// Requests that no honest replica or server sends: each is refused, counted and logged before anything has
// changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include "distbelief/testing/test_hostile.h"

namespace distbelief::server {
namespace {

using testing::HostileServiceTest;
using namespace std::chrono_literals;
using comm::StoreRequest;
using StoreKind = comm::StoreRequest::Kind;

TEST_F(HostileServiceTest, PushesThatCannotBe) {
  serve("async");
  const std::vector<float> good(testing::kHostileElements, 0.5F);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), 3e38F, -1.5e15F}) {
    std::vector<float> gradient = good;
    gradient.back() = bad;
    expect_refused("not finite", [&] { mallory_->ask(push(0), bytes(gradient)); });
  }
  const auto refuse = [&](const char* what, StoreRequest message) {
    expect_refused(what, [&] { mallory_->ask(message, bytes(good)); });
  };
  expect_refused("too short",
                 [&] { mallory_->ask(push(0), bytes(good).first(testing::kHostileElements * 4 - 4)); });
  expect_refused("too long",
                 [&] { mallory_->ask(push(0), bytes(std::vector<float>(testing::kHostileElements + 1))); });
  expect_refused("nothing", [&] { mallory_->ask(push(0), {}); });
  StoreRequest message = push(0);
  message.slice = 1;
  refuse("a slice that there is not", message);
  message = push(0);
  message.space ^= 1;
  refuse("a space that there is not", message);
  refuse("a ticket that there is not", push(1000));
  message = push(0);
  message.base = 1;
  refuse("a version that there is not yet", message);
  message = push(0);
  message.untouched = {2};
  refuse("a parameter that there is not", message);
  for (const double lr : {std::numeric_limits<double>::infinity(), 3e38, -1e7}) {
    message = push(0);
    message.lr = lr;
    refuse("a learning rate that parameters would not survive", message);
  }
  message = push(0);
  message.kind = StoreKind(9999);
  refuse("an unknown kind", message);
  message.kind = StoreKind::kReplicate;
  refuse("what only servers say", message);
  message = push(0);
  mallory_->ask(message, bytes(good));  // replica 1, from now on
  message.replica = 2;
  message.ticket = 1;
  refuse("another replica's name", message);
  message.replica = comm::kMostReplicas;
  refuse("a replica that there cannot be", message);
  message = push(1);
  message.wants_values = true;
  std::vector<float> room(testing::kHostileElements - 1);
  expect_refused("no room for the answer",
                 [&] { mallory_->ask(message, bytes(good), std::as_writable_bytes(std::span(room))); });
  EXPECT_EQ(mallory_->ask(push(0), bytes(good)).outcome, comm::StoreAnswer::Outcome::kRepeated) << "replayed";
  EXPECT_EQ(values(), good);
}

TEST_F(HostileServiceTest, TheSamePushAgainAndAgain) {
  serve("async");
  const std::vector<float> good(testing::kHostileElements, 0.25F);
  using Outcome = comm::StoreAnswer::Outcome;
  EXPECT_EQ(mallory_->ask(push(0), bytes(good)).outcome, Outcome::kDone);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(mallory_->ask(push(0), bytes(good)).outcome, Outcome::kRepeated);
  expect_refused("once more", [&] { mallory_->ask(push(0), bytes(good)); });
  const StoreRequest fill{.kind = StoreKind::kFill, .space = space_, .replica = 1, .incarnation = 1};
  expect_refused("first values", [&] { mallory_->ask(fill, bytes(good)); });
  EXPECT_EQ(mallory_->ask(push(1), bytes(good)).outcome, Outcome::kDone) << "what is new counts";
  EXPECT_EQ(mallory_->ask(push(0), bytes(good)).outcome, Outcome::kRepeated) << "and begins anew";
}

// A slow replica is late with every step, and continues.
TEST_F(HostileServiceTest, TheSameLatePartAgainAndAgain) {
  serve("sync");
  const std::vector<float> good(testing::kHostileElements, 0.5F);
  StoreRequest all = push(0);
  all.replica = 0;
  all.end_lane = 2;
  all.samples = all.step_samples = 2;
  for (all.ticket = 0; all.ticket < 40; ++all.ticket) honest_->ask(all, bytes(good));
  StoreRequest late = push(0);
  late.end_lane = late.samples = 1;
  late.step_samples = 2;
  using Outcome = comm::StoreAnswer::Outcome;
  for (int step = 0; step < 30; ++step) {
    late.ticket = step;
    EXPECT_EQ(mallory_->ask(late, bytes(good)).outcome, Outcome::kLate);
  }
  for (int i = 0; i < 16; ++i) mallory_->ask(late, bytes(good));
  expect_refused("once more", [&] { mallory_->ask(late, bytes(good)); });
}

TEST_F(HostileServiceTest, ClaimsAtTheDesk) {
  serve("bounded");
  StoreRequest message{
      .kind = StoreKind::kTake, .space = space_, .replica = 1, .incarnation = 1, .done = {-1}};
  expect_refused("a negative ticket", [&] { mallory_->ask(message, {}); });
  message.done = {1000};
  expect_refused("a ticket that there is not", [&] { mallory_->ask(message, {}); });
  message.done = {};
  message.clock = -7;
  expect_refused("a clock before its beginning", [&] { mallory_->ask(message, {}); });
  message.clock = -1;
  EXPECT_EQ(mallory_->ask(message, {}).ticket, 0) << "nothing was dealt to it before";
}

TEST_F(HostileServiceTest, PartsOfAStepThatDoNotFit) {
  serve("sync");
  const std::vector<float> good(testing::kHostileElements, 0.5F);
  StoreRequest own = push(0);
  own.replica = 0;
  own.end_lane = 1;
  own.samples = 1;
  own.step_samples = 2;
  // Sent twice: when one is returned, the other is in its place.
  comm::ExchangeClient::Pending first = honest_->send(own, bytes(good));
  comm::ExchangeClient::Pending second = honest_->send(own, bytes(good));
  while (!first.ready() && !second.ready()) std::this_thread::yield();
  comm::ExchangeClient::Pending& kept = first.ready() ? second : first;
  StoreRequest other = own;
  other.replica = 1;
  other.first_lane = 1;
  other.end_lane = 2;
  const auto refuse = [&](const char* what, const StoreRequest& message) {
    const std::int64_t refused = service_->refused();
    EXPECT_THROW(mallory_->ask(message, bytes(good)), Error) << what;
    EXPECT_EQ(service_->refused(), refused + 1) << what;
  };
  StoreRequest message = other;
  message.first_lane = 0;
  message.end_lane = 2;
  refuse("lanes of another", message);
  message = other;
  message.end_lane = 5;
  refuse("lanes that there are not", message);
  message = other;
  message.samples = 3;
  refuse("more samples than the step has", message);
  message = other;
  message.step_samples = 0;
  refuse("a step without samples", message);
  message = other;
  message.step_samples = std::numeric_limits<std::int64_t>::max();
  refuse("a step of more samples than there are", message);
  message = other;
  message.ticket = 3;
  refuse("a step that has not come", message);
  message = other;
  message.lr = 7;
  refuse("another learning rate", message);
  std::vector<float> rows(3, std::numeric_limits<float>::quiet_NaN());
  StoreRequest meet = other;
  meet.kind = StoreKind::kMeet;
  EXPECT_THROW(mallory_->ask(meet, bytes(rows), std::as_writable_bytes(std::span(rows))), Error)
      << "statistics that are not finite";
  rows.assign(3, 1);
  EXPECT_THROW(mallory_->ask(meet, bytes(rows)), Error) << "no room for the mean";
  StoreRequest met = own;
  met.kind = StoreKind::kMeet;
  std::vector<float> mean(3);
  const comm::ExchangeClient::Pending waiting =
      honest_->send(met, bytes(rows), std::as_writable_bytes(std::span(mean)));
  values();  // it has arrived
  meet.first_lane = 0;
  meet.end_lane = 1;
  const std::int64_t refused = service_->refused();
  EXPECT_THROW(mallory_->ask(meet, bytes(rows), std::as_writable_bytes(std::span(rows))), Error);
  EXPECT_EQ(service_->refused(), refused + 1) << "the lane of another: it does not wait for the others";
  message = other;
  message.wants_values = true;
  refuse("no room for the values", message);
  EXPECT_EQ(mallory_->ask(other, bytes(good)).version, 1);
  EXPECT_EQ(comm::decode_answer(kept.wait(20s).header).version, 1);
  EXPECT_EQ(values(), std::vector<float>(testing::kHostileElements, 0))
      << "1 - 1 * (0.5 + 0.5): each lane once";
}

// The present parts stand for all: their sum is scaled by the samples.
TEST_F(HostileServiceTest, SumsThatNoRuleCanGoBy) {
  spare_lanes_ = 1;
  serve("sync");
  StoreRequest part = push(0);
  part.end_lane = part.samples = 1;
  part.step_samples = std::int64_t{1} << 40;
  expect_refused("few samples that stand for very many",
                 [&] { mallory_->ask(part, bytes(std::vector<float>(testing::kHostileElements, 1e15F))); });
  part.step_samples = 2;
  expect_refused("twice what is just bearable",
                 [&] { mallory_->ask(part, bytes(std::vector<float>(testing::kHostileElements, 1e15F))); });
  part.replica = 0;
  EXPECT_EQ(honest_->ask(part, bytes(std::vector<float>(testing::kHostileElements, 0.25F))).version, 1);
  EXPECT_EQ(values(), std::vector<float>(testing::kHostileElements, 0.5F))
      << "one gradient of two counts twice";
}

TEST_F(HostileServiceTest, PartsThatAddUpToNoNumber) {
  serve("sync");
  const std::vector<float> large(testing::kHostileElements, 1e15F), good(testing::kHostileElements, 0.5F);
  StoreRequest first = push(0), second = push(0);
  first.replica = 0;
  first.end_lane = second.first_lane = 1;
  second.end_lane = 2;
  first.samples = second.samples = 1;
  first.step_samples = second.step_samples = 2;
  comm::ExchangeClient::Pending waiting = honest_->send(first, bytes(large));
  values();  // it has arrived
  expect_refused("together too large", [&] { mallory_->ask(second, bytes(large)); });
  EXPECT_THROW(waiting.wait(20s), Error) << "of both";
  waiting = honest_->send(first, bytes(good));
  values();
  EXPECT_EQ(mallory_->ask(second, bytes(good)).version, 1);
  waiting.wait(20s);
}

// A connection gets room for its job's slices and no more: others need some too.
TEST_F(HostileServiceTest, MoreSharedMemoryThanItsJobNeeds) {
  serve("async");
  comm::ExchangeClient greedy({.address = {.target = exchange_->target()},
                               .name = "mallory",
                               .shared_bytes = (std::size_t{1} << 20) + 8});
  const std::string text = comm::encode(spec());
  EXPECT_THROW(
      greedy.send(comm::encode(StoreRequest{.kind = StoreKind::kOpen}), std::as_bytes(std::span(text)), {})
          .wait(20s),
      Error);
  for (int i = 0; i < 2000 && greedy.connected(); ++i) std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(greedy.connected());
  EXPECT_EQ(exchange_->counts().dropped, 1U);
}

TEST_F(HostileServiceTest, JobsThatNoServerCanKeep) {
  serve("async");
  const auto refuse = [&](const char* what, const std::function<void(comm::SpaceSpec&)>& change) {
    comm::SpaceSpec bad = spec();
    bad.job = what;
    change(bad);
    const std::int64_t refused = service_->refused();
    EXPECT_THROW(mallory_->open(bad), Error) << what;
    EXPECT_EQ(service_->refused(), refused + 1) << what;
  };
  refuse("more parameters than can be counted", [](auto& bad) { bad.elements = ~std::uint64_t{0} >> 1; });
  refuse("more parameters than the quota", [](auto& bad) { bad.elements = std::uint64_t{1} << 30; });
  refuse("parameters that wrap around", [](auto& bad) { bad.parameters[1].count = ~std::uint64_t{0}; });
  refuse("a rule that is no number", [](auto& bad) { bad.optimizer.momentum = std::nan(""); });
  refuse("more tickets than can be counted", [](auto& bad) { bad.tickets = std::int64_t{1} << 60; });
  refuse("an unknown rule", [](auto& bad) { bad.optimizer.name = "magic"; });
  refuse("lanes beyond the quota", [](auto& bad) {
    bad.mode = "sync";
    bad.lanes = 1 << 20;
    bad.lane_values = 1 << 16;
  });
  const std::string noise(100, '\xff');
  EXPECT_THROW(mallory_->ask({.kind = StoreKind::kOpen}, std::as_bytes(std::span(noise))), Error);
}

TEST_F(HostileServiceTest, StatesFromAServerThatDoNotFit) {
  serve("async");
  // As if another server were the primary.
  service_->set_map({.epoch = 2,
                     .servers = {{.id = 0, .target = "unix:/nowhere"}, {.id = 1, .target = "unix:/nowhere"}},
                     .parts = std::vector<ServerMap::Part>(kParts, {.primary = 1, .backup = 0})});
  const std::vector<float> good(testing::kHostileElements, 0.5F);
  StoreRequest install{.kind = StoreKind::kInstall, .job = "test", .version = 5, .counts = {1}};
  EXPECT_THROW(server_->ask(install, bytes(good)), Error) << "counts of another layout";
  install.counts = {1, 1};
  install.piece = 7;
  EXPECT_THROW(server_->ask(install, bytes(good)), Error);
  StoreRequest deals{.kind = StoreKind::kDeals, .done = {5000}, .job = "test"};
  EXPECT_THROW(server_->ask(deals, {}), Error);
  EXPECT_THROW(server_->ask({.kind = StoreKind::kPush, .job = "test"}, bytes(good)), Error)
      << "what replicas say";
  EXPECT_EQ(service_->refused(), 4);
}

// Servers learn of it one after another: one that does not know yet may open the job at one that does.
TEST_F(HostileServiceTest, AJobThatIsOverDoesNotComeBack) {
  serve("async");
  const auto close = [&](const std::string& job) {
    honest_->ask({.kind = StoreKind::kClose, .job = job}, {});
  };
  comm::SpaceSpec never_here = spec();
  never_here.job = "never here";
  for (const comm::SpaceSpec& one : {spec(), never_here}) {
    close(one.job);
    EXPECT_EQ(server_->open(one).space, 0U) << one.job;
    EXPECT_EQ(service_->jobs(), 0U) << one.job;
    EXPECT_THROW(honest_->open(one), Error) << one.job;
    server_->ask({.kind = StoreKind::kReplicate, .job = one.job}, {});  // its message counts for nothing
  }
  EXPECT_THROW(close(""), Error);
  EXPECT_THROW(close(std::string(kMostNameBytes + 1, 'x')), Error);
  never_here.job = "another";
  EXPECT_NE(server_->open(never_here).space, 0U);
  EXPECT_EQ(service_->jobs(), 1U);
}

// A primary that is lost was filling the newcomer, which had an update that its successor never got.
TEST_F(HostileServiceTest, ANewcomerTakesWhatTheNewPrimaryHas) {
  serve("async");
  const auto follow = [&](std::int64_t epoch, const ServerMap::Part& part) {
    ServerMap map{.epoch = epoch, .parts = std::vector<ServerMap::Part>(kParts, part)};
    for (int id = 0; id < 3; ++id) map.servers.push_back({.id = id, .target = "unix:/nowhere"});
    service_->set_map(map);
  };
  const auto install = [&](testing::TestPeer& peer, std::int64_t epoch) {
    const std::vector<float> values(testing::kHostileElements, 3);
    StoreRequest message{.kind = StoreKind::kInstall, .job = "test", .version = 5, .epoch = epoch};
    message.counts = {5, 5};
    message.pieces = 1;
    peer.ask(message, bytes(values));
  };
  const auto update = [&](testing::TestPeer& peer, std::int64_t epoch, std::int64_t ticket, float gradient) {
    StoreRequest message{.kind = StoreKind::kReplicate, .ticket = ticket, .job = "test"};
    message.version = 6;
    message.epoch = epoch;
    message.lr = 1;
    peer.ask(message, bytes(std::vector<float>(testing::kHostileElements, gradient)));
  };
  const std::string target = "unix:" + (scratch_.path() / "server").string();
  testing::TestPeer second(target, "server", "server 2");
  follow(2, {.primary = 1, .backup = 2, .filling = 0});
  install(*server_, 2);
  update(*server_, 2, 10, 1);
  follow(3, {.primary = 2});
  follow(4, {.primary = 2, .filling = 0});
  const std::int64_t refused = service_->refused();
  EXPECT_THROW(update(*server_, 2, 12, 7), Error)
      << "from the lost one, and late: it must not count anywhere";
  EXPECT_EQ(service_->refused(), refused) << "no offence";
  install(second, 4);
  update(second, 4, 11, 2);
  follow(5, {.primary = 0});
  EXPECT_EQ(values(), std::vector<float>(testing::kHostileElements, 1));
}

// A primary was given up though it lives, and its backup has handed the part on since.
TEST_F(HostileServiceTest, AFormerPrimaryIsNotToldThatItsUpdatesCount) {
  serve("async");
  ServerMap map{.epoch = 2};
  for (int id = 0; id < 4; ++id) map.servers.push_back({.id = id, .target = "unix:/nowhere"});
  const std::string target = "unix:" + (scratch_.path() / "server").string();
  testing::TestPeer second(target, "server", "server 2");
  const auto update = [&](testing::TestPeer& peer, StoreKind kind, std::int64_t epoch) {
    StoreRequest message{.kind = kind, .job = "test", .version = 1, .epoch = epoch, .counts = {1, 1}};
    message.pieces = 1;
    const std::size_t floats = kind == StoreKind::kMean || kind == StoreKind::kKeepStatistics ? 3
                               : kind == StoreKind::kDeals                                    ? 0
                                                           : testing::kHostileElements;
    try {
      peer.ask(message, bytes(std::vector<float>(floats)));
      return ErrorCode::kInternal;
    } catch (const Error& error) {
      return error.code();
    }
  };
  // A backup, and a server that no longer holds the part.
  for (const ServerMap::Part& part :
       {ServerMap::Part{.primary = 2, .backup = 0}, {.primary = 2, .backup = 3}}) {
    map.parts.assign(kParts, part);
    ++map.epoch;
    service_->set_map(map);
    for (const StoreKind kind : {StoreKind::kReplicate, StoreKind::kInstall, StoreKind::kMean,
                                 StoreKind::kDeals, StoreKind::kKeepStatistics})
      EXPECT_EQ(update(*server_, kind, 2), ErrorCode::kAborted) << int(kind);
  }
  EXPECT_EQ(update(second, StoreKind::kReplicate, 3), ErrorCode::kInternal)
      << "its primary has not heard yet that it need not have it";
  EXPECT_EQ(service_->refused(), 0);
}

TEST_F(HostileServiceTest, WhoIsRefusedAgainAndAgainIsAnsweredLate) {
  at_once_ = 3;
  serve("async");
  const std::vector<float> good(testing::kHostileElements, 0.5F);
  const auto refused_within = [&](testing::TestPeer& peer) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THROW(peer.ask(push(5000), bytes(good)), Error);
    return std::chrono::steady_clock::now() - begin;
  };
  for (int i = 0; i < 3; ++i) refused_within(*mallory_);
  for (int i = 0; i < 3; ++i) EXPECT_GE(refused_within(*mallory_), 100ms);
  EXPECT_EQ(service_->refused(), 6);
  EXPECT_EQ(mallory_->ask(push(0), bytes(good)).version, 1) << "what is right is answered at once";
}

// The payload is in memory that the client can write, also between the check and the use.
TEST_F(HostileServiceTest, ANumberThatChangesAfterTheCheckDoesNotGetIn) {
  serve("async");
  const std::span<std::byte> shared = mallory_->shared();
  ASSERT_GE(shared.size(), testing::kHostileElements * sizeof(float));
  auto* const floats = reinterpret_cast<float*>(shared.data());
  std::fill_n(floats, testing::kHostileElements, 0.0F);
  std::atomic<bool> ends{false};
  std::jthread flipping([&] {
    const volatile float good = 0, bad = std::numeric_limits<float>::quiet_NaN();
    while (!ends) {
      std::atomic_ref(floats[testing::kHostileElements - 1]).store(bad, std::memory_order_relaxed);
      std::atomic_ref(floats[testing::kHostileElements - 1]).store(good, std::memory_order_relaxed);
    }
  });
  int taken = 0, refused = 0;
  for (int ticket = 0; ticket < 1000; ++ticket) try {
      mallory_->ask(push(ticket), shared.first(testing::kHostileElements * sizeof(float)));
      ++taken;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kBadInput) << error.message();
      ++refused;
    }
  ends = true;
  EXPECT_EQ(values(), std::vector<float>(testing::kHostileElements, 1))
      << taken << " taken, " << refused << " refused";
  EXPECT_EQ(service_->refused(), refused);
}

}  // namespace
}  // namespace distbelief::server
