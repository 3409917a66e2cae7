#include "distbelief/process/worker_orders.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"

namespace distbelief::process {
namespace {

using Json = nlohmann::json;

int int_in(const Json& value) { return int(whole_number(value, 0, std::numeric_limits<int>::max())); }

[[noreturn]] void refuse_order(const Json::exception& error) {
  throw Error(ErrorCode::kBadInput, fmt::format("an order that cannot be read: {}", error.what()));
}

}  // namespace

TurnOrder read_turn_order(const std::string& text) try {
  const Json order = parse_json(text, "the order to go");
  return {.generation = int_in(order.at("generation")),
          .recoveries = int_in(order.at("recoveries")),
          .fence = whole_number(order.at("fence")),
          .resume = order.at("resume").get<bool>()};
} catch (const Json::exception& error) {
  refuse_order(error);
}

std::vector<std::string> read_server_order(const std::string& text) try {
  return parse_json(text, "the order of servers").get<std::vector<std::string>>();
} catch (const Json::exception& error) {
  refuse_order(error);
}

run::LaneOrder read_lane_order(std::int64_t serial, const std::string& text) try {
  const Json order = parse_json(text, "the order of lanes");
  run::LaneOrder lanes{.serial = serial, .threads = int_in(order.at("threads"))};
  for (const Json& worker : order.at("resting")) lanes.resting.push_back(int_in(worker));
  return lanes;
} catch (const Json::exception& error) {
  refuse_order(error);
}

}  // namespace distbelief::process
