#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "distbelief/data/pipeline/loader.h"
#include "distbelief/data/pipeline/sampling.h"
#include "distbelief/mesh/lane_plan.h"
#include "distbelief/run/prepared_job.h"

namespace distbelief::replica {

// Where a run stands in its data.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t step_in_epoch = 0;
};

struct LaneFeedOptions {
  data::EpochPlan epochs{};  // of the job
  enum class Order {
    kInOrder,    // one step after the other
    kAnnounced,  // steps as they are announced
  } order = Order::kInOrder;
  int rank = 0;  // of the worker, for messages
};

// The batches of the lanes that this worker carries. The job outlives it. Each loader has one consumer;
// everything else is for one thread.
class LaneFeed {
 public:
  LaneFeed(const run::PreparedJob& job, const LaneFeedOptions& options);

  // Feeds a carrier's lanes from that position on, on a host where so many carriers compute side by side. The
  // loader lives until clear().
  data::Loader& add(const mesh::Carrier& carrier, const DataPosition& at, int carriers_on_host);
  void clear() { loaders_.clear(); }
  // Only with Order::kAnnounced: a step that will be wanted, after those announced before.
  void announce(std::int64_t step);
  // Passes over the batches of so many steps.
  void skip(std::int64_t steps);

  const data::BatchMaker& batches() const { return batches_; }
  const data::EpochPlan& epochs() const { return options_.epochs; }

 private:
  const run::PreparedJob& job_;
  LaneFeedOptions options_;
  data::BatchMaker batches_;
  std::vector<std::unique_ptr<data::Loader>> loaders_;
};

}  // namespace distbelief::replica
