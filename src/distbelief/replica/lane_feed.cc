#include "distbelief/replica/lane_feed.h"

#include <algorithm>

#include "distbelief/base/parallel_defaults.h"

namespace distbelief::replica {
namespace {

data::BatchMaker::Options batch_options(const Config& config) {
  const auto wants = [&](const char* name) {
    return std::find(config.data.augment.begin(), config.data.augment.end(), name) !=
           config.data.augment.end();
  };
  return {.seed = config.train.seed,
          .normalize = config.data.normalize,
          .augment_pad_crop = wants("pad_crop"),
          .augment_flip = wants("flip"),
          .pad = int(config.data.pad)};
}

}  // namespace

LaneFeed::LaneFeed(const run::PreparedJob& job, const LaneFeedOptions& options)
    : job_(job),
      options_(options),
      batches_(*job.data.train, batch_options(job.config)) {}

data::Loader& LaneFeed::add(const mesh::Carrier& carrier, const DataPosition& at, int carriers_on_host) {
  const Config& config = job_.config;
  loaders_.push_back(std::make_unique<data::Loader>(
      batches_,
      data::Loader::Options{.plan = options_.epochs,
                            .seed = config.train.seed,
                            .arrangement = config.data.order == "streams" ? data::Arrangement::kStreams
                                                                          : data::Arrangement::kShuffled,
                            .first_lane = std::uint64_t(carrier.first_lane),
                            .end_lane = std::uint64_t(carrier.end_lane),
                            .lanes = {carrier.lanes.begin(), carrier.lanes.end()},
                            .epoch = std::uint64_t(at.epoch),
                            .step = std::uint64_t(at.step_in_epoch),
                            .threads = int(config.data.loader_threads),
                            .prefetch = int(config.data.prefetch),
                            .is_told = options_.order == LaneFeedOptions::Order::kAnnounced,
                            .own_below = data::own_below(carriers_on_host),
                            .deadline = deadline_of(config.parallel),
                            .rank = options_.rank}));
  return *loaders_.back();
}

void LaneFeed::announce(std::int64_t step) {
  for (const auto& loader : loaders_) loader->announce(std::uint64_t(step));
}

void LaneFeed::skip(std::int64_t steps) {
  for (const auto& loader : loaders_) loader->skip(std::uint64_t(steps));
}

}  // namespace distbelief::replica
