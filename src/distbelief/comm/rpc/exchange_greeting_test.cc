#include "distbelief/comm/rpc/exchange_greeting.h"

#include <gtest/gtest.h>
#include <proto/exchange.pb.h>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange.h"

namespace distbelief::comm {
namespace {

TEST(ExchangeGreeting, ComesBackAsItWent) {
  const Hello hello{.role = "worker", .name = "replica 3", .shared_bytes = 1 << 20};
  EXPECT_EQ(decode_hello(encode(hello)), hello);
  const Welcome alone{.connection = 7, .in_flight = 64};
  EXPECT_EQ(decode_welcome(encode(alone)), alone);
  const Welcome sharing{.connection = 8,
                        .in_flight = 1,
                        .memory = {.pid = 5, .descriptor = 6, .device = 7, .inode = 8, .bytes = 4096}};
  EXPECT_EQ(decode_welcome(encode(sharing)), sharing);
}

TEST(ExchangeGreeting, WhatAPeerCallsItselfStaysOnItsLine) {
  const Hello hello{.role = "worker\n\x1b[2J", .name = std::string(1000, 'x')};
  EXPECT_EQ(decode_hello(encode(hello)).role, "worker??[2J");
  EXPECT_EQ(decode_hello(encode(hello)).name, std::string(64, 'x'));
}

TEST(ExchangeGreeting, RefusesOtherVersionsAndWhatIsNone) {
  exchange::Hello old;
  old.set_version(kExchangeVersion + 1);
  EXPECT_THROW(decode_hello(old.SerializeAsString()), Error);
  EXPECT_THROW(decode_hello(""), Error);
  EXPECT_THROW(decode_hello("\xff\xff\xff"), Error);
  EXPECT_THROW(decode_welcome(encode(Welcome{.in_flight = 0})), Error);
  EXPECT_EQ(decode_welcome(encode(Welcome{.in_flight = 1 << 30})).in_flight, 1 << 20);
}

}  // namespace
}  // namespace distbelief::comm
