// What replicas claim at the desk of a job that two servers keep: it counts when their gradients are there,
// on both alike.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/compute/lbfgs.h"
#include "distbelief/server/portion_deals.h"
#include "distbelief/server/test_servers.h"
#include "distbelief/server/test_tickets.h"

namespace distbelief::server {
namespace {

using namespace std::chrono_literals;
using comm::StoreRequest;
using DeskKind = comm::StoreRequest::Kind;

class ClaimsTest : public ServiceTest {
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
    ServiceTest::TearDown();
  }
  std::size_t desk() const { return std::size_t(map_.desk().primary); }
  comm::StoreAnswer say(StoreRequest message, std::span<const std::byte> payload = {}) {
    message.space = space_;
    message.replica = kClaimant;
    message.incarnation = 1;
    return comm::decode_answer(claimant_->send(comm::encode(message), payload, {}).wait(20s).header);
  }
  // Each way to say it is refused, and counted.
  void expect_refused(const std::vector<std::int64_t>& done) {
    for (const DeskKind kind : {DeskKind::kTake, DeskKind::kBegin, DeskKind::kTell, DeskKind::kLeave}) {
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
    return ticket_of(*honest_, asked);
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
  expect_refused({0});
  expect_refused({1});
  say({.kind = DeskKind::kLeave});
  EXPECT_EQ(take(), 0) << "it comes back";
  do_ticket(*honest_, 0);
  expect_refused({0, 1});
  say({.kind = DeskKind::kTell, .done = {0}});  // it is there, whoever says so
  EXPECT_EQ(take({0}), 1);
  do_ticket(*honest_, 1);
  EXPECT_EQ(take({1}), 2);
  do_ticket(*honest_, 2);  // answered behind what the backup was told
  claimant_.reset();
  lose_server(int(desk()));
  EXPECT_EQ(take(), 2) << "who takes over knows what is done, and no more";
  EXPECT_EQ(take({2}), std::nullopt);
}

// It was pushed before it was dealt: the desk deals it all the same, and so must the next one.
TEST_F(ClaimsTest, WhatTheDeskDoesNotCountItsBackupIsNotTold) {
  comm::SpaceSpec few = spec("async");
  few.tickets = 3;
  serve_job(few);
  do_ticket(*honest_, 2);
  say({.kind = DeskKind::kTell, .done = {2}});
  do_ticket(*honest_, 0);  // answered behind what the backup was told
  claimant_.reset();
  lose_server(int(desk()));
  for (std::int64_t ticket = 0; ticket < 3; ++ticket) EXPECT_EQ(take(), ticket);
  do_ticket(*honest_, 1);
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
  do_ticket(*honest_, 1);
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

}  // namespace
}  // namespace distbelief::server
