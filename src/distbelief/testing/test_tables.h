#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "distbelief/compute/row_values.h"
#include "distbelief/server/audit/row_log_check.h"
#include "distbelief/testing/test_servers.h"

namespace distbelief::testing {

// Servers with two tables, and the expected rows of the first one.
class TableTest : public ServiceTest {
 protected:
  static constexpr std::size_t kWidth = 5;  // row width of the first table
  static comm::SpaceSpec with_tables(std::uint64_t most_rows = 0) {
    comm::SpaceSpec with = spec("async");
    with.elements = 2048;
    with.parameters = {{.begin = 0, .count = 2048}};
    with.tickets = 1000;
    with.tables = {{.name = "words", .width = kWidth, .seed = 3, .scale = 0.1, .most_rows = most_rows},
                   {.name = "wide", .width = 64, .seed = 4}};
    return with;
  }
  static std::vector<std::uint64_t> some_ids(std::uint64_t first, std::size_t count) {
    std::vector<std::uint64_t> ids(count);
    for (std::size_t i = 0; i < count; ++i) ids[i] = compute::mix(first + i);
    return ids;
  }
  // An expected row: the same updates, applied to one row at a time.
  struct Row {
    std::vector<float> values = std::vector<float>(kWidth);
    float accumulated = 0;
  };
  void expect_update(const std::vector<std::uint64_t>& ids, const std::vector<float>& gradients, float lr) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool is_new = !rows_.contains(ids[i]);
      Row& row = rows_[ids[i]];
      if (is_new) compute::first_values(3, ids[i], 0.1F, row.values.data(), kWidth);
      compute::update_row(row.values.data(), row.accumulated, gradients.data() + i * kWidth, lr, kWidth);
    }
  }
  void push_some(server::Client& client, std::int64_t ticket, std::uint64_t first, std::size_t count) {
    const std::vector<std::uint64_t> ids = some_ids(first, count);
    std::vector<float> gradients(ids.size() * kWidth);
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = 0.01F * float(i % 7) - 0.02F;
    client.push_rows(0, ticket, 0.1, ids, gradients);
    expect_update(ids, gradients, 0.1F);
  }
  void check_all(server::Client& client) {
    std::vector<std::uint64_t> ids;
    for (const auto& [id, row] : rows_) ids.push_back(id);
    std::vector<float> values(ids.size() * kWidth);
    client.pull_rows(0, ids, values);
    for (std::size_t i = 0; i < ids.size(); ++i)
      ASSERT_TRUE(std::equal(rows_[ids[i]].values.begin(), rows_[ids[i]].values.end(), &values[i * kWidth]))
          << i << " of " << ids.size();
  }
  // Checks that the server logs prove these tickets for the first table, each exactly once.
  void expect_proven(const std::vector<std::int64_t>& tickets, const std::vector<int>& lost) const {
    server::RunLogs logs{.lost = lost};
    for (int id = 0; id < int(services_.size()); ++id) {
      std::vector<server::LogLine>& lines = logs.servers[id];
      lines = server::read_log(folder_ / "logs" / ("0-server" + std::to_string(id) + ".jsonl"));
      std::erase_if(lines, [](const server::LogLine& line) { return line.rows.table != 0; });
    }
    for (const std::int64_t ticket : tickets)
      logs.replicas[0].push_back(
          {.kind = server::LogLine::Kind::kAcknowledged, .update = {.ticket = ticket}});
    try {
      EXPECT_EQ(server::check_rows(logs, {}).pushes, std::int64_t(tickets.size()));
    } catch (const server::LogFlaw& flaw) {
      ADD_FAILURE() << flaw.text;
    }
  }
  std::map<std::uint64_t, Row> rows_;
};

}  // namespace distbelief::testing
