#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "distbelief/base/error.h"
#include "distbelief/compute/row_values.h"
#include "distbelief/server/client/client_connection.h"
#include "distbelief/testing/test_tables.h"

namespace distbelief::server {
namespace {

using namespace std::chrono_literals;
using Kind = comm::StoreRequest::Kind;

// Raw bytes that our own client would not send.
class HostileRowsTest : public testing::TableTest {
 protected:
  void SetUp() override {
    testing::TableTest::SetUp();
    serve(1);
    Client client = join(0, with_tables());
    push_some(client, 0, 0, 50);
    exchange_ = std::make_unique<comm::ExchangeClient>(
        comm::ExchangeClient::Options{.address = addresses_[0], .name = "mallory"});
    const std::string spec = comm::encode(with_tables());
    space_ =
        comm::decode_answer(exchange_
                                ->send(comm::encode(comm::StoreRequest{.kind = Kind::kOpen, .replica = 9}),
                                       std::as_bytes(std::span(spec)), {})
                                .wait(20s)
                                .header)
            .space;
  }
  void TearDown() override {
    exchange_.reset();
    testing::TableTest::TearDown();
  }
  static std::vector<std::byte> payload(const std::vector<std::uint64_t>& ids,
                                        const std::vector<float>& values) {
    std::vector<std::byte> bytes(ids.size() * 8 + values.size() * 4);
    std::memcpy(bytes.data(), ids.data(), ids.size() * 8);
    std::memcpy(bytes.data() + ids.size() * 8, values.data(), values.size() * 4);
    return bytes;
  }
  std::string refusal(comm::StoreRequest message, const std::vector<std::byte>& bytes) {
    message.space = space_;
    try {
      exchange_->send(comm::encode(message), bytes, {}).wait(20s);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      return error.message();
    }
    return "";
  }
  // Two rows of one part, in order.
  static std::vector<std::uint64_t> two_of_a_part() {
    std::uint64_t second = 1;
    while (compute::part_of_row(second) != compute::part_of_row(0)) ++second;
    return {0, second};
  }
  std::unique_ptr<comm::ExchangeClient> exchange_;
  std::uint64_t space_ = 0;
};

TEST_F(HostileRowsTest, WhatIsWrongIsRefusedAndChangesNothing) {
  const std::vector<std::uint64_t> ids = two_of_a_part();
  const std::uint64_t parts = std::uint64_t{1} << compute::part_of_row(0);
  const comm::StoreRequest good{
      .kind = Kind::kPushRows, .replica = 9, .ticket = 5, .lr = 0.1, .table = 0, .parts = parts};
  const std::vector<float> ones(2 * kWidth, 1.0F);
  std::vector<float> bad = ones;
  comm::StoreRequest message = good;
  message.table = 2;
  EXPECT_NE(refusal(message, payload(ids, ones)), "") << "a table that there is not";
  message.table = -1;
  EXPECT_NE(refusal(message, payload(ids, ones)), "");
  message = good;
  message.ticket = 1000;
  EXPECT_NE(refusal(message, payload(ids, ones)), "") << "a ticket that there is not";
  message = good;
  message.lr = 1e300;
  EXPECT_NE(refusal(message, payload(ids, ones)), "");
  message = good;
  message.parts = ~parts;
  EXPECT_NE(refusal(message, payload(ids, ones)), "") << "rows of parts that it does not name";
  EXPECT_NE(refusal(good, payload({ids[1], ids[0]}, ones)), "") << "out of order";
  EXPECT_NE(refusal(good, payload({ids[0], ids[0]}, ones)), "") << "the same row twice";
  EXPECT_NE(refusal(good, payload(ids, std::vector<float>(2 * kWidth + 1))), "") << "another shape";
  for (const float number :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1.5e15F}) {
    bad[2 * kWidth - 1] = number;
    const std::string why = refusal(good, payload(ids, bad));
    EXPECT_NE(why.find("mallory"), std::string::npos) << why;
    EXPECT_NE(why.find("replica 9"), std::string::npos) << why;
  }
  message = good;
  message.kind = Kind::kPullRows;
  EXPECT_NE(refusal(message, std::vector<std::byte>(9)), "") << "half an id";
  message.kind = Kind::kListRows;
  message.slice = 64;
  EXPECT_NE(refusal(message, {}), "");
  message = good;
  message.kind = Kind::kRows;
  EXPECT_NE(refusal(message, {}), "") << "what servers say to each other";
  message.kind = Kind::kLoadRows;
  EXPECT_NE(refusal(message, std::vector<std::byte>(with_tables().tables[0].record_bytes())), "")
      << "a table in use is not loaded";

  Client client = join(1, with_tables());
  check_all(client);
  EXPECT_EQ(client.list_rows(0, {}).rows, 50);
  EXPECT_EQ(refusal(good, payload(ids, ones)), "") << "and the ticket is still to be had";
  EXPECT_EQ(client.list_rows(0, {}).rows, 52);
}

TEST_F(HostileRowsTest, TablesThatNoServerCouldKeepAreRefused) {
  const auto is_refused = [&](const comm::TableSpec& table, const char* mode) {
    comm::SpaceSpec other = with_tables();
    other.job = "other";
    other.mode = mode;
    other.tables = {table};
    try {
      join(0, other);
    } catch (const Error& error) {
      return error.code() == ErrorCode::kBadInput;
    }
    return false;
  };
  EXPECT_TRUE(is_refused({.name = "a", .width = 0}, "async"));
  EXPECT_TRUE(is_refused({.name = "a", .width = 1 << 20}, "async"));
  EXPECT_TRUE(is_refused({.name = "a", .width = 4, .scale = -1}, "async"));
  EXPECT_TRUE(is_refused({.name = "a", .width = 4, .scale = std::nan("")}, "async"));
  EXPECT_TRUE(is_refused({.name = "a", .width = 4}, "sync"));
  EXPECT_FALSE(is_refused({.name = "a", .width = 4}, "bounded"));
}

}  // namespace
}  // namespace distbelief::server
