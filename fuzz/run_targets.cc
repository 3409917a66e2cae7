#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "distbelief/base/hex.h"
#include "distbelief/base/json_text.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/cli/launch_file.h"
#include "distbelief/cli/predict_inputs.h"
#include "distbelief/cluster/enrolment.h"
#include "distbelief/planner/measured_costs.h"
#include "distbelief/process/worker_orders.h"
#include "distbelief/report/page.h"
#include "distbelief/report/run_history.h"
#include "distbelief/run/code_clusters.h"
#include "distbelief/server/shard/update_log.h"
#include "memory_file.h"
#include "targets.h"

namespace distbelief::fuzz {

// The JSON lines of a run folder: metrics and events, from which the page is drawn, its summary and
// predictions, and the servers' logs.
void json_lines(std::span<const std::uint8_t> input) {
  static const ScratchFolder folder;
  const std::string lines(text_of(input));
  for (const char* name : {"metrics.jsonl", "events.jsonl"}) write_text(folder.path() / name, lines);
  report::RunHistory history(folder.path());
  history.read_new();
  const nlohmann::json found = json_or_discarded(lines);
  const nlohmann::json value = found.is_discarded() ? nlohmann::json() : found;
  report::render_page({.history = history,
                       .name = "run",
                       .summary = value,
                       .predictions = value,
                       .text = value,
                       .job = lines});
  const MemoryFile log(input);
  parse_or_refuse([&] { server::read_log(log.path()); });
}

namespace {

constexpr std::uint64_t kTestSamples = 12;

// Enrols with the variables of a program that `distbelief launch` started.
void enrol(const std::string& cohort) {
  setenv("DISTBELIEF_CONTROL", "unix:/nowhere", 1);
  setenv("DISTBELIEF_RUN_DIR", "run", 1);
  setenv("DISTBELIEF_COHORT", cohort.c_str(), 1);
  parse_or_refuse([] { DISTBELIEF_INVARIANT(cluster::own_enrolment()->cohort >= 1); });
}

}  // namespace

// Small JSON in a run folder and between its processes: clusters.json, launch.json, measurements of blocks
// and plans, the supervisor's orders. Also other short inputs: indices of test samples, hexadecimal job
// files, the variables of `distbelief launch`.
void run_json(std::span<const std::uint8_t> input) {
  static const ScratchFolder folder;
  const std::string text(text_of(input));
  for (const char* name : {"clusters.json", "launch.json"}) write_text(folder.path() / name, text);
  if (const auto clusters = run::CodeClusters::load(folder.path(), "weights"))
    DISTBELIEF_INVARIANT(clusters->width > 0 && clusters->centres.size() % clusters->width == 0);
  parse_or_refuse(
      [&] { DISTBELIEF_INVARIANT(!cli::read_launch_file(folder.path() / "launch.json").program.empty()); });
  if (const nlohmann::json found = json_or_discarded(text); !found.is_discarded()) {
    parse_or_refuse([&] {
      const nlohmann::json once = planner::to_json(planner::block_costs_from_json(found));
      DISTBELIEF_INVARIANT(planner::to_json(planner::block_costs_from_json(once)) == once);
    });
    parse_or_refuse([&] {
      const nlohmann::json once = planner::to_json(planner::plan_measurement_from_json(found));
      DISTBELIEF_INVARIANT(planner::to_json(planner::plan_measurement_from_json(once)) == once);
    });
  }
  parse_or_refuse([&] { process::read_turn_order(text); });
  parse_or_refuse([&] { process::read_server_order(text); });
  parse_or_refuse([&] { process::read_lane_order(1, text); });
  parse_or_refuse([&] {
    const auto [first, last] = cli::parse_test_range("test:" + text, kTestSamples);
    DISTBELIEF_INVARIANT(first <= last && last < kTestSamples);
  });
  parse_or_refuse([&] { DISTBELIEF_INVARIANT(from_hex(text).size() * 2 == text.size()); });
  enrol(text);
}

}  // namespace distbelief::fuzz
