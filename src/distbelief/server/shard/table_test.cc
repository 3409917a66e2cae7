#include "distbelief/server/shard/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/compute/row_values.h"
#include "distbelief/server/client/client_connection.h"
#include "distbelief/server/client/close_job.h"
#include "distbelief/testing/file_size_limit.h"
#include "distbelief/testing/test_tables.h"

namespace distbelief::server {
namespace {

using testing::TableTest;
using namespace std::chrono_literals;
using Kind = comm::StoreRequest::Kind;

TEST_F(TableTest, RowsAreUpdatedWhereverTheyAre) {
  for (const bool shares_memory : {true, false}) {
    TearDown();
    SetUp();
    addresses_.clear();
    rows_.clear();
    serve(3);
    Client client = join(0, with_tables(), 1, shares_memory);
    for (int i = 0; i < 5; ++i) push_some(client, i, 100 * std::uint64_t(i), 300);
    check_all(client);
    const std::vector<std::uint64_t> untouched = some_ids(1'000'000, 2);
    std::vector<float> values(2 * kWidth), wanted(kWidth);
    client.pull_rows(0, untouched, values);
    compute::first_values(3, untouched[1], 0.1F, wanted.data(), kWidth);
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), values.begin() + kWidth));
    EXPECT_EQ(client.list_rows(0, {}).rows, 700) << "a row that was only read is not made";
    EXPECT_EQ(client.list_rows(1, {}).rows, 0);
  }
}

// More rows than one message takes.
TEST_F(TableTest, ALargePushIsCutIntoMessages) {
  serve(2);
  Client client = join(0, with_tables());
  push_some(client, 0, 0, 100'000);
  push_some(client, 1, 50'000, 100'000);
  check_all(client);
  EXPECT_EQ(client.list_rows(0, {}).rows, 150'000);
}

TEST_F(TableTest, ATicketCountsOnceInEveryPart) {
  serve(2);
  Client client = join(0, with_tables());
  push_some(client, 4, 0, 500);
  const std::vector<std::uint64_t> ids = some_ids(0, 500);
  const std::vector<float> gradients(ids.size() * kWidth, 1.0F);
  client.push_rows(0, 4, 0.1, ids, gradients);
  Client other = join(1, with_tables());
  other.push_rows(0, 4, 0.1, ids, gradients);
  check_all(other);
}

// The log's disk is full for a while: the push is refused, and when it is sent again its line is in the log.
TEST_F(TableTest, WhatIsToldToBeDoneIsInTheLog) {
  std::filesystem::create_directories(folder_ / "logs");
  serve(1);
  Client client = join(0, with_tables(), 1, false);
  push_some(client, 0, 0, 500);
  comm::ExchangeClient replica({.address = addresses_[0], .name = "replica 7"});
  const std::string text = comm::encode(with_tables());
  const auto send = [&](comm::StoreRequest request, std::span<const std::byte> payload) {
    request.replica = 7;
    return comm::decode_answer(replica.send(comm::encode(request), payload, {}).wait(20s).header);
  };
  const std::uint64_t space = send({.kind = Kind::kOpen}, std::as_bytes(std::span(text))).space;
  const std::uint64_t id = 3;
  std::vector<std::byte> row(sizeof id + kWidth * sizeof(float));
  std::memcpy(row.data(), &id, sizeof id);
  const auto push = [&] {
    return send({.kind = Kind::kPushRows, .space = space, .ticket = 1, .lr = 0.1, .parts = ~std::uint64_t{0}},
                row);
  };
  {
    const testing::FileSizeLimit full(0);
    for (int i = 0; i < 2; ++i) EXPECT_THROW(push(), Error);
  }
  EXPECT_EQ(push().outcome, comm::StoreAnswer::Outcome::kRepeated);
  expect_proven({0, 1}, {});
}

TEST_F(TableTest, ALostServerLosesNoRowAndANewOneIsFilled) {
  serve(2);
  Client client = join(0, with_tables());
  std::int64_t ticket = 0;
  const auto some_steps = [&] {
    for (int i = 0; i < 4; ++i, ++ticket) push_some(client, ticket, 700 * std::uint64_t(ticket), 2000);
  };
  some_steps();
  lose_server(0);
  some_steps();
  check_all(client);
  add_server();
  publish(with_newcomer(map_, {.id = 2, .target = addresses_[2].target}));
  follow_plan({}, some_steps);
  some_steps();
  lose_server(1);
  check_all(client);
  const std::vector<std::uint64_t> ids = some_ids(0, 2000);
  client.push_rows(0, 0, 0.1, ids, std::vector<float>(ids.size() * kWidth, 1.0F));
  check_all(client);  // the newcomer knows earlier tickets
  some_steps();
  check_all(client);
  std::vector<std::int64_t> done;
  for (std::int64_t i = 0; i < ticket; ++i) done.push_back(i);
  expect_proven(done, {0, 1});
}

// Two replicas push at once while parts move: every acknowledged push is there, once.
TEST_F(TableTest, ServersComeAndGoWhileRowsArePushed) {
  serve(1);
  Client client = join(0, with_tables());
  Client other = join(1, with_tables());
  std::int64_t ticket = 0, far = 500;
  const auto far_steps = [&](std::atomic<bool>& ends) {  // other rows of the same parts
    const std::vector<std::uint64_t> ids = some_ids(10'000'000, 700);
    std::vector<float> gradients(ids.size() * kWidth, 0.01F);
    do other.push_rows(0, far++, 0.1, ids, gradients);
    while (!ends && far < 900);
  };
  const auto some_steps = [&] {
    std::atomic<bool> ends{false};
    std::thread beside([&] { far_steps(ends); });
    for (int i = 0; i < 3; ++i, ++ticket) push_some(client, ticket, 300 * std::uint64_t(ticket), 1500);
    ends = true;
    beside.join();
    check_all(client);
  };
  some_steps();
  for (int id = 1; id <= 2; ++id) {
    add_server();
    publish(with_newcomer(map_, {.id = id, .target = addresses_[std::size_t(id)].target}));
    follow_plan({}, some_steps);
    some_steps();
  }
  EXPECT_EQ(std::ranges::count(map_.parts, 2, &ServerMap::Part::primary), 21);
  follow_plan({0}, some_steps);
  EXPECT_FALSE(map_.has(0));
  exchanges_[0].reset();
  services_[0].reset();
  some_steps();
  const std::int64_t rows = client.list_rows(0, {}).rows;
  lose_server(1);
  check_all(client);
  EXPECT_EQ(client.list_rows(0, {}).rows, rows);
  // Tickets have moved too.
  for (std::int64_t old = 0; old < ticket; ++old) {
    const std::vector<std::uint64_t> ids = some_ids(300 * std::uint64_t(old), 1500);
    client.push_rows(0, old, 0.1, ids, std::vector<float>(ids.size() * kWidth, 1.0F));
  }
  some_steps();
  const std::vector<std::uint64_t> ids = some_ids(10'000'000, 700);
  const std::vector<float> gradients(ids.size() * kWidth, 0.01F);
  for (std::int64_t done = 500; done < far; ++done) expect_update(ids, gradients, 0.1F);
  check_all(client);
  std::vector<std::int64_t> done(std::size_t(ticket + far - 500));
  for (std::size_t i = 0; i < done.size(); ++i)
    done[i] = std::int64_t(i) < ticket ? std::int64_t(i) : std::int64_t(i) - ticket + 500;
  expect_proven(done, {1});
}

// 4 MiB for a slice of 1 MiB, rows of 40 bytes, and the index: rows handed to other servers make room.
TEST_F(TableTest, AServerForgetsTheRowsThatItHandedOver) {
  serve(1, 4 << 20);
  Client client = join(0, with_tables());
  push_some(client, 0, 0, 40'000);
  for (int id = 1; id <= 2; ++id) {
    add_server(4 << 20);
    publish(with_newcomer(map_, {.id = id, .target = addresses_[std::size_t(id)].target}));
    follow_plan({}, [] {});
  }
  for (int i = 1; i <= 3; ++i) push_some(client, i, 100'000 * std::uint64_t(i), 10'000);
  check_all(client);
  EXPECT_EQ(client.list_rows(0, {}).rows, 70'000);
}

// The supervisor reports a lost newcomer while rows are in flight to it.
TEST_F(TableTest, ANewcomerThatIsLostWhileItIsFilledHoldsNobodyUp) {
  serve(1);
  Client client = join(0, with_tables());
  push_some(client, 0, 0, 200'000);
  for (int id = 1; id <= 3; ++id) {
    add_server();
    publish(with_newcomer(map_, {.id = id, .target = addresses_[std::size_t(id)].target}));
    const auto step = next_step(map_, {});
    ASSERT_TRUE(step);
    publish(step->map);
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * id));
    lose_server(id);
    push_some(client, id, 50'000 * std::uint64_t(id), 20'000);
  }
  check_all(client);
}

// Rows of an earlier run are there before any replica gets one.
TEST_F(TableTest, RowsAreListedAndLoadedAgain) {
  std::vector<std::byte> records;
  {
    serve(2);
    Client client = join(0, with_tables());
    for (int i = 0; i < 3; ++i) push_some(client, i, 1000 * std::uint64_t(i), 30'000);
    const Client::TableCounts counts = client.list_rows(
        0, [&](std::span<const std::byte> some) { records.insert(records.end(), some.begin(), some.end()); });
    EXPECT_EQ(counts.rows, 32'000);
    EXPECT_EQ(records.size(), 32'000 * with_tables().tables[0].record_bytes());
  }
  TearDown();
  SetUp();
  addresses_.clear();
  serve(2);
  comm::SpaceSpec again = with_tables();
  again.loads_rows = true;
  Client client = join(0, again);
  std::atomic<bool> done{false};
  std::thread other([&] {
    Client second = join(1, again);
    std::vector<float> values(kWidth);
    second.pull_rows(0, std::vector<std::uint64_t>{compute::mix(0)}, values);
    EXPECT_EQ(values, rows_[compute::mix(0)].values);
    done = true;
  });
  client.load_rows(0, records);
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(done) << "not before all are there";
  client.open_rows(0);
  client.open_rows(1);
  other.join();
  EXPECT_TRUE(done);
  EXPECT_THROW(client.load_rows(0, records), Error) << "the table is in use";
  push_some(client, 3, 0, 30'000);
  lose_server(0);
  check_all(client);
}

TEST_F(TableTest, ABoundIsKeptAndSaysWhatWent) {
  serve(2);
  Client client = join(0, with_tables(640));
  for (int i = 0; i < 20; ++i) push_some(client, i, 100 * std::uint64_t(i), 100);
  const Client::TableCounts counts = client.list_rows(0, {});
  EXPECT_LE(counts.rows, 640);
  EXPECT_GE(counts.rows, 600);
  EXPECT_EQ(counts.rows + counts.gone, 2000);
  // The newest rows are there; the oldest are as if never updated.
  const std::vector<std::uint64_t> newest = some_ids(1990, 10), oldest = some_ids(0, 10);
  std::vector<float> values(10 * kWidth), first(kWidth);
  client.pull_rows(0, newest, values);
  int kept = 0, forgotten = 0;
  for (std::size_t i = 0; i < 10; ++i)
    kept += std::equal(rows_[newest[i]].values.begin(), rows_[newest[i]].values.end(), &values[i * kWidth]);
  EXPECT_GE(kept, 9);
  client.pull_rows(0, oldest, values);
  for (std::size_t i = 0; i < 10; ++i) {
    compute::first_values(3, oldest[i], 0.1F, first.data(), kWidth);
    forgotten += std::equal(first.begin(), first.end(), &values[i * kWidth]);
  }
  EXPECT_GE(forgotten, 9);
  // The backup has removed the same rows, and the newcomer does not get them.
  lose_server(0);
  EXPECT_EQ(client.list_rows(0, {}).rows, counts.rows);
  add_server();
  publish(with_newcomer(map_, {.id = 2, .target = addresses_[2].target}));
  follow_plan({1}, [] {});
  EXPECT_FALSE(map_.has(1));
  EXPECT_EQ(client.list_rows(0, {}).rows, counts.rows);
  EXPECT_EQ(client.list_rows(0, {}).gone, counts.gone);
}

TEST_F(TableTest, AJobBeyondItsQuotaGetsNoMoreRows) {
  serve(1, 2 << 20);
  Client client = join(0, with_tables());
  push_some(client, 0, 0, 1000);
  try {
    const std::vector<std::uint64_t> ids = some_ids(0, 64'000);
    for (std::int64_t ticket = 1; ticket < 10; ++ticket)
      client.push_rows(0, ticket, 0.1, some_ids(64'000 * std::uint64_t(ticket), 64'000),
                       std::vector<float>(64'000 * kWidth));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("most_rows"), std::string::npos) << error.message();
  }
}

// Each push alone would fit.
TEST_F(TableTest, RowsOfAllTablesCountTogetherWithTheSlices) {
  serve(1, 4 << 20);  // a slice takes 1 MiB of it
  Client client = join(0, with_tables());
  push_some(client, 0, 0, 30'000);  // 1.2 MB, and the index
  const std::vector<std::uint64_t> ids = some_ids(0, 8'000);
  const auto push_wide = [&](std::int64_t ticket, std::size_t rows) {
    client.push_rows(1, ticket, 0.1, {ids.begin(), ids.begin() + std::ptrdiff_t(rows)},
                     std::vector<float>(rows * 64));
  };
  push_wide(1, 2'000);
  try {
    push_wide(2, 8'000);  // 2.2 MB
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("rows more of table wide"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("takes 4194304 of one job"), std::string::npos) << error.message();
  }
  push_wide(3, 2'000);  // these rows exist already
  check_all(client);
}

TEST_F(TableTest, RowsOfAllJobsCountTogether) {
  add_server(std::size_t(-1), 6 << 20);
  publish(first_map({{.id = 0, .target = addresses_[0].target}}));
  comm::SpaceSpec second = with_tables();
  second.job = "second";
  Client client = join(0, with_tables()), other = join(0, second);
  push_some(client, 0, 0, 40'000);
  const std::vector<float> gradients(40'000 * kWidth);
  EXPECT_THROW(other.push_rows(0, 0, 0.1, some_ids(0, 40'000), gradients), Error);
  close_job(addresses_, "test");
  second.job = "third";
  Client third = join(0, second);
  third.push_rows(0, 0, 0.1, some_ids(0, 40'000), gradients);
}

}  // namespace
}  // namespace distbelief::server
