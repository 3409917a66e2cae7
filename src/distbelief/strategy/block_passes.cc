#include "distbelief/strategy/block_passes.h"

namespace distbelief::strategy {

int places_of(Lap lap, int blocks) { return lap == Lap::kTraining ? 2 * blocks - 1 : blocks; }

int block_at(int place, int blocks) { return place < blocks ? place : 2 * blocks - 2 - place; }

int backward_place(int block, int blocks) { return 2 * blocks - 2 - block; }

void BlockPasses::begin(std::int64_t laps, Lap lap, std::int64_t step) {
  base_ += std::uint32_t(all_);
  places_ = places_of(lap, options_.blocks);
  all_ = laps * places_;
  lap_ = -1;
  step_ = step;
}

void BlockPasses::skip(std::int64_t laps) {
  lap_ += laps;
  use_up_to((lap_ + 1) * places_);
}

void BlockPasses::hold(int place) {
  const std::uint32_t wanted = base_ + std::uint32_t(lap_ * places_ + place + 1);
  if (options_.state->host().gathered.reached(wanted)) return;
  if (options_.before_wait) options_.before_wait();
  // The exchange has a deadline of its own and knows which host is silent.
  options_.domain->patient_waiter().wait(
      options_.state->host().gathered, wanted,
      {.rank = options_.domain->rank_of(0), .operation = "gather parameters", .step = step_});
}

void BlockPasses::used(int place) { use_up_to(lap_ * places_ + place + 1); }
void BlockPasses::end_lap() { use_up_to((lap_ + 1) * places_); }
void BlockPasses::end() { use_up_to(all_); }

void BlockPasses::use_up_to(std::int64_t places) {
  options_.state->carrier(options_.domain->member()).used.raise(base_ + std::uint32_t(places));
}

}  // namespace distbelief::strategy
