#include "distbelief/job/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace distbelief::job {
namespace {

void grow(bool& value) { value = !value; }
void grow(std::int64_t& value) { ++value; }
void grow(std::uint64_t& value) { ++value; }
void grow(double& value) { value += 1; }
void grow(std::string& value) { value += "x"; }
void grow(std::vector<std::string>& value) { value.push_back("x"); }
void grow(std::vector<std::int64_t>& value) { value.push_back(1); }

Config changed_through_keys() {
  Config config;
  for (const Key& key : keys()) {
    std::visit([&](const auto& field) { grow(field.write(config)); }, key.field);
  }
  options_of(config, "model")["x"] = true;
  options_of(config, "data")["x"] = true;
  return config;
}

// The members of each struct; a new one does not compile until it is added here.
auto members(const ModelConfig& c) {
  const auto& [a, b] = c;
  return std::tie(a, b);
}
auto members(const DataConfig& c) {
  const auto& [a, b, d, e, f, g, h, i, j, k, l] = c;
  return std::tie(a, b, d, e, f, g, h, i, j, k, l);
}
auto members(const OptimizerConfig& c) {
  const auto& [a, b, d, e, f, g, h, i, j] = c;
  return std::tie(a, b, d, e, f, g, h, i, j);
}
auto members(const ScheduleConfig& c) {
  const auto& [a, b, d, e, f] = c;
  return std::tie(a, b, d, e, f);
}
auto members(const TrainConfig& c) {
  const auto& [a, b, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, optimizer, schedule] = c;
  return std::tuple_cat(std::tie(a, b, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v),
                        members(optimizer), members(schedule));
}
auto members(const ParallelConfig& c) {
  const auto& [a, b, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, bb, cc, dd, ee,
               ff] = c;
  return std::tie(a, b, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, bb, cc, dd,
                  ee, ff);
}
auto members(const CheckpointConfig& c) {
  const auto& [a, b, d, e, f] = c;
  return std::tie(a, b, d, e, f);
}
auto members(const ElasticConfig& c) {
  const auto& [a, b, d, e, f, g, h, i, j, k, l, m, n, o] = c;
  return std::tie(a, b, d, e, f, g, h, i, j, k, l, m, n, o);
}
auto members(const ReportConfig& c) {
  const auto& [a, b, d, e, f, g] = c;
  return std::tie(a, b, d, e, f, g);
}

template <typename T>
void expect_differs(const T& before, const T& after, std::size_t index, const char* name) {
  EXPECT_NE(before, after) << "member " << index << " of " << name << " has no key";
}

template <typename Struct>
void expect_all_differ(const Struct& before, const Struct& after, const char* name) {
  const auto old_values = members(before), new_values = members(after);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (expect_differs(std::get<I>(old_values), std::get<I>(new_values), I, name), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(members(before))>>{});
}

TEST(Schema, ReachesEveryMemberOfConfig) {
  const Config before, after = changed_through_keys();
  const auto& [model, data, train, parallel, elastic, checkpoint, report, own] = after;
  EXPECT_TRUE(own.empty());  // only registered modes have sections there
  expect_all_differ(before.model, model, "ModelConfig");
  expect_all_differ(before.data, data, "DataConfig");
  expect_all_differ(before.train, train, "TrainConfig");
  expect_all_differ(before.parallel, parallel, "ParallelConfig");
  expect_all_differ(before.elastic, elastic, "ElasticConfig");
  expect_all_differ(before.checkpoint, checkpoint, "CheckpointConfig");
  expect_all_differ(before.report, report, "ReportConfig");
}

TEST(Schema, HasEachKeyOnceInASectionThatExists) {
  std::set<std::string> names;
  for (const Key& key : keys()) {
    EXPECT_TRUE(names.insert(key.full_name()).second) << key.full_name();
    EXPECT_NE(std::ranges::find(section_names(), key.section), section_names().end()) << key.full_name();
    EXPECT_EQ(find_key(key.section, key.name), &key);
    EXPECT_FALSE(key.help.empty()) << key.full_name();
  }
  EXPECT_EQ(find_key("train", "name"), nullptr);
}

TEST(Schema, TwoKeysNeverShareAMember) {
  for (const Key& key : keys()) {
    Config config;
    std::visit([&](const auto& field) { grow(field.write(config)); }, key.field);
    for (const Key& other : keys()) {
      const bool same = std::visit(
          [&](const auto& field) { return field.read(config) == field.read(Config{}); }, other.field);
      EXPECT_EQ(same, &other != &key) << key.full_name() << " and " << other.full_name();
    }
  }
}

TEST(SuggestKey, PrefersTheSameNameElsewhereThenTheOwnSection) {
  EXPECT_EQ(suggest_key("train", "workers"), "parallel.workers");
  EXPECT_EQ(suggest_key("train", "epoch"), "train.epochs");
  EXPECT_EQ(suggest_key("checkpoint", "every_epoch"), "checkpoint.every_epochs");
  EXPECT_EQ(suggest_key("report", "batchsize"), "train.batch_size");
  EXPECT_EQ(suggest_key("train", "colour"), "");
}

}  // namespace
}  // namespace distbelief::job
