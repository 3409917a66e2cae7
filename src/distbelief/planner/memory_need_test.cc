#include "distbelief/planner/memory_need.h"

#include <gtest/gtest.h>

namespace distbelief::planner {
namespace {

// The snapshots' share of the host's memory.
std::size_t of_snapshots(Config config, const std::vector<int>& workers_per_host, int host) {
  config.model = {"mlp", {}};
  config.data.name = "synthetic";
  int workers = 0;
  for (const int each : workers_per_host) workers += each;
  run::resolve_for_workers(config, workers);
  run::PreparedJob job = run::prepare_blueprint(config);
  job.config.checkpoint.snapshots = true;
  const std::size_t with = shared_memory_needed(job, workers_per_host, host);
  job.config.checkpoint.snapshots = false;
  return with - shared_memory_needed(job, workers_per_host, host);
}

TEST(SharedMemoryNeeded, HasRoomForTheSnapshotsOnEveryHost) {
  const std::size_t alone = of_snapshots({}, {2}, 0);
  EXPECT_GT(alone, 0U);
  for (const int host : {0, 1}) EXPECT_EQ(of_snapshots({}, {2, 1}, host), alone) << "host " << host;
}

TEST(SharedMemoryNeeded, HasRoomForAllOfANetworkThatIsCutOverHosts) {
  Config cut;
  cut.parallel.pipeline = 2;
  const std::size_t together = of_snapshots(cut, {2}, 0);
  EXPECT_GT(together, 0U);
  EXPECT_EQ(of_snapshots(cut, {1, 1}, 0), together);
}

}  // namespace
}  // namespace distbelief::planner
