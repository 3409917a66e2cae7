#include "distbelief/model/lane_place.h"

#include <optional>

#include "distbelief/base/error.h"

namespace distbelief::model {
namespace {

// Per thread for the same reason as the generator in random.cc: a block's forward takes a tensor and no more.
std::optional<LanePlace>& place_of_thread() {
  thread_local std::optional<LanePlace> place;
  return place;
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

}  // namespace distbelief::model
