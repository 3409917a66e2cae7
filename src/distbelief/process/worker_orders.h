#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/run/vitals.h"

// Contents of a supervisor's orders beside their kind: JSON. Pure functions, without torch. All throw
// Error(kBadInput) for what is none.
namespace distbelief::process {

// Contents of the order to go, as RunStart has them.
struct TurnOrder {
  int generation = 1;
  int recoveries = 0;
  std::int64_t fence = 0;
  bool resume = false;
};
TurnOrder read_turn_order(const std::string& text);

// Where parameter servers listen.
std::vector<std::string> read_server_order(const std::string& text);

run::LaneOrder read_lane_order(std::int64_t serial, const std::string& text);

}  // namespace distbelief::process
