#include "distbelief/planner/measured_costs.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"

namespace distbelief::planner {
namespace {

using Json = nlohmann::json;

std::size_t bytes_in(const Json& value) { return std::size_t(whole_number(value, 0)); }

int count_in(const Json& value) { return int(whole_number(value, 0, std::numeric_limits<int>::max())); }

double number_in(const Json& value) {
  if (!value.is_number())
    throw Error(ErrorCode::kBadInput, fmt::format("wanted a number, found {}", value.type_name()));
  return value.get<double>();
}

// blocks.json of an earlier version has no working and forward bytes.
mesh::BlockCost block_cost(const Json& block) {
  return {.forward_seconds = number_in(block.at("forward_seconds")),
          .backward_seconds = number_in(block.at("backward_seconds")),
          .parameter_bytes = bytes_in(block.at("parameter_bytes")),
          .activation_bytes = bytes_in(block.at("activation_bytes")),
          .output_bytes = bytes_in(block.at("output_bytes")),
          .working_bytes = bytes_in(block.value("working_bytes", Json(0))),
          .forward_bytes = bytes_in(block.value("forward_bytes", Json(0)))};
}

MachineCosts machine_costs(const Json& json) {
  const Json& sharing = json.at("sharing");
  const Json& link = json.at("between_hosts");
  return {.cores = count_in(json.at("cores")),
          .base_bytes = bytes_in(json.at("base_bytes")),
          .copy_bytes_per_second = number_in(json.at("copy_bytes_per_second")),
          .fetch_bytes_per_second = number_in(json.at("fetch_bytes_per_second")),
          .sharing = {.alone = number_in(sharing.at("alone")),
                      .together = number_in(sharing.at("together")),
                      .replicas = count_in(sharing.at("replicas")),
                      .further_lane = number_in(sharing.at("further_lane")),
                      .meet_seconds = number_in(sharing.at("meet_seconds"))},
          .between_hosts = {.latency_seconds = number_in(link.at("latency_seconds")),
                            .bytes_per_second = number_in(link.at("bytes_per_second"))}};
}

[[noreturn]] void refuse_costs(const Json::exception& error) {
  throw Error(ErrorCode::kBadInput, fmt::format("these are no measured costs: {}", error.what()));
}

}  // namespace

Json to_json(const std::vector<mesh::BlockCost>& blocks) {
  Json json = Json::array();
  for (const mesh::BlockCost& cost : blocks)
    json.push_back({{"forward_seconds", cost.forward_seconds},
                    {"backward_seconds", cost.backward_seconds},
                    {"parameter_bytes", cost.parameter_bytes},
                    {"activation_bytes", cost.activation_bytes},
                    {"output_bytes", cost.output_bytes},
                    {"working_bytes", cost.working_bytes},
                    {"forward_bytes", cost.forward_bytes}});
  return json;
}

std::vector<mesh::BlockCost> block_costs_from_json(const Json& json) try {
  std::vector<mesh::BlockCost> costs;
  for (const Json& block : json) costs.push_back(block_cost(block));
  return costs;
} catch (const Json::exception& error) {
  refuse_costs(error);
}

Json to_json(const PlanMeasurement& measurement) {
  const MachineCosts& machine = measurement.machine;
  Json lanes = Json::array();
  for (const LaneCosts& lane : measurement.lanes) {
    lanes.push_back({{"samples", lane.samples},
                     {"data_seconds", lane.data_seconds},
                     {"input_bytes", lane.input_bytes},
                     {"blocks", to_json(lane.blocks)}});
  }
  return {{"cores", machine.cores},
          {"base_bytes", machine.base_bytes},
          {"validated", measurement.validated},
          {"copy_bytes_per_second", machine.copy_bytes_per_second},
          {"fetch_bytes_per_second", machine.fetch_bytes_per_second},
          {"sharing",
           {{"alone", machine.sharing.alone},
            {"together", machine.sharing.together},
            {"replicas", machine.sharing.replicas},
            {"further_lane", machine.sharing.further_lane},
            {"meet_seconds", machine.sharing.meet_seconds}}},
          {"between_hosts",
           {{"latency_seconds", machine.between_hosts.latency_seconds},
            {"bytes_per_second", machine.between_hosts.bytes_per_second}}},
          {"lanes", lanes}};
}

PlanMeasurement plan_measurement_from_json(const Json& json) try {
  PlanMeasurement measured{.machine = machine_costs(json), .lanes = {}};
  measured.validated = whole_number(json.at("validated"), 0);
  for (const Json& lane : json.at("lanes"))
    measured.lanes.push_back({.samples = whole_number(lane.at("samples"), 0),
                              .data_seconds = number_in(lane.at("data_seconds")),
                              .input_bytes = bytes_in(lane.at("input_bytes")),
                              .blocks = block_costs_from_json(lane.at("blocks"))});
  return measured;
} catch (const Json::exception& error) {
  refuse_costs(error);
}

}  // namespace distbelief::planner
