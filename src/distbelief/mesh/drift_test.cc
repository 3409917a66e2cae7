#include "distbelief/mesh/drift.h"

#include <gtest/gtest.h>

namespace distbelief::mesh {
namespace {

using Places = std::vector<int>;

OddOnes odd_ones(const std::vector<std::int64_t>& hashes) { return find_odd_ones(hashes); }

TEST(OddOnes, AreNoneAmongEquals) {
  EXPECT_TRUE(odd_ones({}).odd.empty());
  EXPECT_TRUE(odd_ones({7}).odd.empty());
  EXPECT_TRUE(odd_ones({7, 7, 7}).odd.empty());
}

TEST(OddOnes, AreThoseOutsideTheMajority) {
  EXPECT_EQ(odd_ones({7, 8, 7}).odd, (Places{1}));
  EXPECT_EQ(odd_ones({8, 7, 7, 9, 7}).odd, (Places{0, 3}));
  EXPECT_TRUE(odd_ones({7, 8, 7}).has_majority);
}

TEST(OddOnes, AreAllWithoutAMajority) {
  for (const std::vector<std::int64_t>& hashes :
       {std::vector<std::int64_t>{7, 8}, {7, 7, 8, 8}, {7, 8, 9}, {7, 7, 8, 9}}) {
    const OddOnes found = odd_ones(hashes);
    EXPECT_FALSE(found.has_majority);
    EXPECT_EQ(found.odd.size(), hashes.size());
  }
}

TEST(Drift, OfParametersBlamesTheHostAndItsSnapshots) {
  const ReplicaHashes hashes{
      .parameters = {1, 1, 2}, .buffers = {5, 5, 5, 5, 5}, .threads = 1, .workers_per_host = {2, 1, 2}};
  const ReplicaDrift drift = find_drift(hashes);
  ASSERT_TRUE(drift.found());
  EXPECT_EQ(drift.suspect, 3);
  EXPECT_EQ(drift.untrusted, (Places{2}));
  const std::string text = describe(drift, hashes, {"a", "a", "b", "c", "c"});
  EXPECT_NE(text.find("the parameters of host c (workers 3, 4) differ from those of all others"),
            std::string::npos)
      << text;
}

TEST(Drift, OfTwoHostsNamesBothAndTrustsNeither) {
  const ReplicaHashes hashes{
      .parameters = {1, 2}, .buffers = {5, 5}, .threads = 1, .workers_per_host = {1, 1}};
  const ReplicaDrift drift = find_drift(hashes);
  EXPECT_EQ(drift.suspect, -1);
  EXPECT_EQ(drift.untrusted, (Places{0, 1}));
  const std::string text = describe(drift, hashes, {"a", "b"});
  EXPECT_NE(text.find("host a (workers 0) and host b (workers 1) differ, and no majority"), std::string::npos)
      << text;
}

TEST(Drift, OfAThreadsBuffersBlamesItsWorker) {
  const ReplicaHashes hashes{
      .parameters = {1}, .buffers = {5, 5, 5, 6, 5, 5}, .threads = 2, .workers_per_host = {3}};
  const ReplicaDrift drift = find_drift(hashes);
  EXPECT_EQ(drift.workers.odd, (Places{1}));
  EXPECT_EQ(drift.suspect, 1);
  EXPECT_TRUE(drift.untrusted.empty()) << "snapshots hold the first worker's";
}

TEST(Drift, OfBuffersThatASnapshotHoldsMakesItUntrusted) {
  const ReplicaDrift drift = find_drift(
      {.parameters = {1, 1}, .buffers = {5, 5, 6, 5, 5}, .threads = 1, .workers_per_host = {2, 3}});
  EXPECT_EQ(drift.untrusted, (Places{1}));
}

TEST(Drift, IsNotFoundWhereAllIsEqual) {
  EXPECT_FALSE(
      find_drift({.parameters = {1, 1}, .buffers = {5, 5, 5}, .threads = 1, .workers_per_host = {1, 2}})
          .found());
}

}  // namespace
}  // namespace distbelief::mesh
