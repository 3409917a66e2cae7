// Claims of finished tickets, for a job on two servers: a claim counts when the gradients are there, on both
// servers alike.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/compute/lbfgs.h"
#include "distbelief/server/scheduler/portion_deals.h"
#include "distbelief/testing/test_servers.h"
#include "distbelief/testing/test_tickets.h"

namespace distbelief::server {
namespace {

using namespace std::chrono_literals;
using comm::StoreRequest;
using DeskKind = comm::StoreRequest::Kind;

class ClaimsTest : public testing::ServiceTest {
 protected:
  static constexpr std::int32_t kClaimant = 9;

  void serve_job(const comm::SpaceSpec& spec) {
    serve(2);
    honest_ = std::make_unique<Client>(join(0, spec));
    claimant_ = std::make_unique<comm::ExchangeClient>(
        comm::ExchangeClient::Options{.address = addresses_[desk()], .name = "replica 9"});
    const std::string text = comm::encode(spec);
    space_ = say({.kind = DeskKind::kOpen}, std::as_bytes(std::span(text))).space;
  }
  void TearDown() override {
    honest_.reset();
    claimant_.reset();
    testing::ServiceTest::TearDown();
  }
  std::size_t desk() const { return std::size_t(map_.desk().primary); }
  comm::StoreAnswer say(StoreRequest message, std::span<const std::byte> payload = {}) {
    message.space = space_;
    message.replica = kClaimant;
    message.incarnation = 1;
    return comm::decode_answer(claimant_->send(comm::encode(message), payload, {}).wait(20s).header);
  }
  // Refused, and counted. At most eight times per test: later refusals are delayed.
  void expect_refused(const std::vector<std::int64_t>& done,
                      const std::vector<DeskKind>& ways = {DeskKind::kTell}) {
    for (const DeskKind kind : ways) {
      const std::int64_t refused = services_[desk()]->refused();
      try {
        say({.kind = kind, .done = done});
        ADD_FAILURE() << int(kind) << ": not refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kBadInput) << error.message();
      }
      EXPECT_EQ(services_[desk()]->refused(), refused + 1) << int(kind);
    }
  }
  std::optional<std::int64_t> take(const std::vector<std::int64_t>& done = {}) {
    Client::Asked asked = honest_->ask_ticket(done);
    return testing::ticket_of(*honest_, asked);
  }

  std::unique_ptr<Client> honest_;
  std::unique_ptr<comm::ExchangeClient> claimant_;
  std::uint64_t space_ = 0;
};

TEST_F(ClaimsTest, ATicketWhoseGradientHasNotComeIsNotDone) {
  comm::SpaceSpec few = spec("async");
  few.tickets = 3;
  serve_job(few);
  EXPECT_EQ(say({.kind = DeskKind::kTake}).ticket, 0);
  expect_refused({0}, {DeskKind::kTake, DeskKind::kBegin, DeskKind::kTell, DeskKind::kLeave});
  expect_refused({1});
  say({.kind = DeskKind::kLeave});
  EXPECT_EQ(take(), 0) << "it comes back";
  testing::do_ticket(*honest_, 0);
  expect_refused({0, 1});
  say({.kind = DeskKind::kTell, .done = {0}});  // it is there, whichever replica reports it
  EXPECT_EQ(take({0}), 1);
  testing::do_ticket(*honest_, 1);
  EXPECT_EQ(take({1}), 2);
  testing::do_ticket(*honest_, 2);  // answered behind the messages to the backup
  claimant_.reset();
  lose_server(int(desk()));
  EXPECT_EQ(take(), 2) << "who takes over knows what is done, and no more";
  EXPECT_EQ(take({2}), std::nullopt);
}

// Ticket 2 was pushed before it was dealt: the scheduler still deals it, and so must its successor.
TEST_F(ClaimsTest, WhatTheDeskDoesNotCountItsBackupIsNotTold) {
  comm::SpaceSpec few = spec("async");
  few.tickets = 3;
  serve_job(few);
  testing::do_ticket(*honest_, 2);
  say({.kind = DeskKind::kTell, .done = {2}});
  testing::do_ticket(*honest_, 0);  // answered behind the messages to the backup
  claimant_.reset();
  lose_server(int(desk()));
  for (std::int64_t ticket = 0; ticket < 3; ++ticket) EXPECT_EQ(take(), ticket);
  testing::do_ticket(*honest_, 1);
  EXPECT_EQ(take({0, 1, 2}), std::nullopt);
}

TEST_F(ClaimsTest, InputsOfTicketsThatNobodyHasDoneAreKept) {
  comm::SpaceSpec second = spec("async");
  second.job = "test.sub1";
  second.tickets = 3;
  second.sub_network = 2;
  second.input_bytes = 64;
  second.window = 2;
  serve_job(second);
  const std::vector<float> output(16, 1.0F);
  honest_->put_input(1, std::as_bytes(std::span(output)));
  expect_refused({0});
  expect_refused({1});
  EXPECT_EQ(take(), 1);
  EXPECT_TRUE(honest_->input(1));
  testing::do_ticket(*honest_, 1);
  honest_->put_input(0, std::as_bytes(std::span(output)));
  EXPECT_EQ(take({1}), 0);
}

TEST_F(ClaimsTest, APortionThatWasNotPushedIsNotDone) {
  constexpr std::int64_t kPortions = 2;
  comm::SpaceSpec batch = spec("sandblaster");
  batch.tickets = 4 * (kPortions + 1);
  batch.portions = kPortions;
  batch.vectors = std::int64_t(compute::lbfgs_vectors(1));
  serve_job(batch);
  EXPECT_EQ(say({.kind = DeskKind::kTake}).ticket, 0);
  expect_refused({0});
  expect_refused({coordinator_ticket(0, kPortions)});
  expect_refused({kPortions + 1});  // of the next evaluation
  EXPECT_EQ(take(), 1);
  const std::vector<float> gradient(batch.elements);
  for (std::int64_t portion = 0; portion < kPortions; ++portion)
    honest_->push({.ticket = portion, .samples = 1, .step_samples = kPortions}, gradient);
  say({.kind = DeskKind::kTell, .done = {0}});
  EXPECT_EQ(take({1}), coordinator_ticket(0, kPortions));
  expect_refused({coordinator_ticket(0, kPortions)});
  honest_->run(0, std::vector<Operation>{{Operation::Kind::kCollect, 1, 1, 0}});
}

TEST_F(ClaimsTest, TheSameClaimAgainAndAgainIsRefused) {
  serve_job(spec("async"));
  EXPECT_EQ(take(), 0);
  EXPECT_EQ(take(), 1);
  testing::do_ticket(*honest_, 0);
  testing::do_ticket(*honest_, 1);
  const std::int64_t refused = services_[desk()]->refused();
  for (int i = 0; i < 33; ++i) say({.kind = DeskKind::kTell, .done = {0}});  // the first one is new
  EXPECT_THROW(say({.kind = DeskKind::kTell, .done = {0}}), Error);
  EXPECT_EQ(services_[desk()]->refused(), refused + 1);
  say({.kind = DeskKind::kTell, .done = {1}});  // a new claim counts and resets the limit
  say({.kind = DeskKind::kTell, .done = {0, 1}});
}

// A backup that holds its answers of one kind until it is released.
class SilentBackup final : public comm::ExchangeServer::Handler {
 public:
  explicit SilentBackup(DeskKind kind) : kind_(kind) {}
  void handle(comm::ExchangeServer::Request request) override {
    const std::lock_guard lock(mutex_);
    if (comm::decode_request(request.header()).kind == kind_) {
      ++count_;
      if (!answers_) return kept_.push_back(std::move(request));
    }
    request.answer(comm::encode(comm::StoreAnswer{}));
  }
  void gone(std::uint64_t) override {}
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  void answer_all() {
    const std::lock_guard lock(mutex_);
    answers_ = true;
    for (comm::ExchangeServer::Request& request : kept_) request.answer(comm::encode(comm::StoreAnswer{}));
    kept_.clear();
  }

 private:
  const DeskKind kind_;
  std::mutex mutex_;
  int count_ = 0;
  bool answers_ = false;
  std::vector<comm::ExchangeServer::Request> kept_;
};

class SilentBackupTest : public ClaimsTest {
 protected:
  std::string place() const { return "unix:" + (folder_ / "backup").string(); }
  // One server, whose backup is listening at place().
  void serve_with_backup(comm::SpaceSpec spec) {
    add_server();
    ServerMap map = first_map({{.id = 0, .target = addresses_[0].target}});
    map.servers.push_back({.id = 7, .target = place()});
    for (ServerMap::Part& part : map.parts) part.backup = 7;
    publish(map);
    spec.elements = 1000;
    spec.parameters = {{.begin = 0, .count = 1000}};
    claimant_ = std::make_unique<comm::ExchangeClient>(
        comm::ExchangeClient::Options{.address = addresses_[0], .name = "replica 9"});
    const std::string text = comm::encode(spec);
    space_ = say({.kind = DeskKind::kOpen}, std::as_bytes(std::span(text))).space;
  }
  // The push is answered when the backup has it, and so is its repetition.
  void expect_both_wait(SilentBackup& backup, StoreRequest message, std::vector<float> payload) {
    message.space = space_;
    message.replica = kClaimant;
    message.incarnation = 1;
    std::vector<float> first_room(payload.size()), second_room(payload.size());
    const auto send = [&](std::vector<float>& room) {
      return claimant_->send(comm::encode(message), std::as_bytes(std::span(payload)),
                             std::as_writable_bytes(std::span(room)));
    };
    comm::ExchangeClient::Pending first = send(first_room);
    for (int i = 0; i < 2000 && backup.count() == 0; ++i) std::this_thread::sleep_for(5ms);
    comm::ExchangeClient::Pending second = send(second_room);
    std::this_thread::sleep_for(100ms);
    EXPECT_FALSE(first.ready());
    EXPECT_FALSE(second.ready());
    backup.answer_all();
    first.wait(20s);
    second.wait(20s);
    EXPECT_EQ(second_room, first_room);
    EXPECT_EQ(backup.count(), 1);
  }
};

TEST_F(SilentBackupTest, AMeanThatIsAskedForAgainIsGivenWhenTheBackupHasIt) {
  SilentBackup backup(DeskKind::kMean);
  const comm::ExchangeServer listening({.address = {.target = place()}}, backup);
  comm::SpaceSpec sync = spec("sync");
  sync.lanes = 1;
  sync.lane_values = 3;
  serve_with_backup(sync);
  expect_both_wait(backup, {.kind = DeskKind::kMeet, .end_lane = 1}, {1, 2, 3});
}

TEST_F(SilentBackupTest, ACoordinatorThatComesAgainIsAnsweredWhenTheBackupHasIt) {
  SilentBackup backup(DeskKind::kKeep);
  const comm::ExchangeServer listening({.address = {.target = place()}}, backup);
  comm::SpaceSpec batch = spec("sandblaster");
  batch.tickets = 12;
  batch.portions = 2;
  batch.vectors = std::int64_t(compute::lbfgs_vectors(1));
  serve_with_backup(batch);
  expect_both_wait(backup, {.kind = DeskKind::kAdvance, .ticket = 1}, {});
}

TEST_F(SilentBackupTest, WhoTellsAgainAndAgainWaitsForTheBackupAndNotTheOthers) {
  SilentBackup backup(DeskKind::kDeals);
  const comm::ExchangeServer listening({.address = {.target = place()}}, backup);
  comm::SpaceSpec bounded = spec("bounded");
  bounded.tickets = 1000;
  serve_with_backup(bounded);
  for (int i = 0; i < 200; ++i) say({.kind = DeskKind::kTell, .clock = 1});
  EXPECT_LE(backup.count(), 1) << "nothing has changed but once";
  // Each message raises its clock, which the backup is told, and soon the sender has to wait for that.
  const auto tell = [&](std::int64_t clock) {
    StoreRequest message{.kind = DeskKind::kTell, .space = space_, .replica = kClaimant, .incarnation = 1};
    message.clock = clock;
    return claimant_->send(comm::encode(message), {}, {});
  };
  int told = 0;
  comm::ExchangeClient::Pending last = tell(2);
  for (; told < 200; last = tell(3 + told), ++told) {
    for (int i = 0; i < 100 && !last.ready(); ++i) std::this_thread::sleep_for(5ms);
    if (!last.ready()) break;
  }
  EXPECT_GT(told, 32);
  EXPECT_LT(told, 100);
  backup.answer_all();
  last.wait(20s);
}

}  // namespace
}  // namespace distbelief::server
