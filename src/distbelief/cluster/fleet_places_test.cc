#include "distbelief/cluster/fleet_places.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"

namespace distbelief::cluster {
namespace {

TEST(PlaceReplicas, GivesEachReplicaOneHost) {
  const std::vector<HostSlots> hosts{{"a", 4}, {"b", 2}};
  EXPECT_EQ(place_replicas(hosts, 2, ReplicaRule::kOfEqualSize),
            (std::vector<ReplicaPlace>{{"a", 2}, {"a", 2}, {"b", 2}}));
  EXPECT_EQ(place_replicas(hosts, 1, ReplicaRule::kOnePerHost),
            (std::vector<ReplicaPlace>{{"a", 4}, {"b", 2}}));
}

TEST(PlaceReplicas, RefusesAReplicaOnTwoHosts) {
  EXPECT_THROW(place_replicas({{"a", 2}, {"b", 3}}, 2, ReplicaRule::kOfEqualSize), Error);
}

TEST(HostForServer, SpreadsServersAndAvoidsHostsThatLoseThem) {
  EXPECT_EQ(host_for_server({{"a", 1, 0}, {"b", 0, 0}, {"c", 0, 0}}), "b");
  EXPECT_EQ(host_for_server({{"a", 1, 0}, {"b", 0, 1}}), "a");
  EXPECT_EQ(host_for_server({}), "");
}

}  // namespace
}  // namespace distbelief::cluster
