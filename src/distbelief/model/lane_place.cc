#include "distbelief/model/lane_place.h"

#include <optional>

#include "distbelief/base/error.h"

namespace distbelief::model {
namespace {

// Per thread for the same reason as the generator in random.cc: a block's forward takes only a tensor.
std::optional<LanePlace>& place_of_thread() {
  thread_local std::optional<LanePlace> place;
  return place;
}

bool& order_of_thread() {
  thread_local bool in_order = false;
  return in_order;
}

}  // namespace

LanePlaceScope::LanePlaceScope(const LanePlace& place) {
  DISTBELIEF_INVARIANT(!place_of_thread());
  place_of_thread() = place;
}

LanePlaceScope::~LanePlaceScope() { place_of_thread().reset(); }

const LanePlace* current_lane() {
  const std::optional<LanePlace>& place = place_of_thread();
  return place ? &*place : nullptr;
}

SamplesInOrderScope::SamplesInOrderScope() {
  DISTBELIEF_INVARIANT(!order_of_thread());
  order_of_thread() = true;
}

SamplesInOrderScope::~SamplesInOrderScope() { order_of_thread() = false; }

bool samples_are_in_order() { return order_of_thread(); }

}  // namespace distbelief::model
