#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/planner/layout_costs.h"

// Lists the layouts of a job on a number of workers with their costs, best first. Pure. Any thread.
namespace distbelief::planner {

struct PlanInput {
  LayoutJob job;
  MachineCosts machine;
  std::vector<LaneCosts> lanes;  // ascending by size; other sizes are scaled from the nearest
  std::map<int, std::vector<TensorSplit>> tensor_splits{};  // per parallel.tensor, per block
  std::int64_t given_lanes = 0;                             // 0: a number that suits the mesh
  bool recompute = false;
  int zero = 1;
  std::size_t memory_limit = 0;  // per worker; 0: none
  // Returns why the program cannot train a layout, or nothing.
  std::function<std::optional<std::string>(const MeshLayout&)> refused = {};
};

struct PlannedLayout {
  MeshLayout layout;
  mesh::Cuts cuts;
  bool cut_for_memory = false;  // the fastest cuts do not fit
  StepSeconds seconds;
  WorkerBytes bytes;
  double samples_per_second = 0;
  std::string note;
};

struct LeftOut {
  MeshLayout layout;
  std::string reason;
  std::size_t bytes_needed = 0;  // if only memory is missing; otherwise 0
};

struct Plan {
  std::vector<PlannedLayout> layouts;  // best first: by speed, then by memory
  std::vector<LeftOut> left_out;
};

// The samples in the largest lane of each possible layout: the sizes of LaneCosts to measure.
std::vector<std::int64_t> lane_sizes(const LayoutJob& job, std::int64_t given_lanes);

// Plans every mesh of the workers with every schedule. A layout above the memory limit is tried again with
// recomputation, then with zero 2 and 3; if it still does not fit, it is left out.
Plan plan_layouts(const PlanInput& input);

// The layout with the least memory among those that only memory rules out; null: there is none.
const LeftOut* smallest_left_out(const Plan& plan);

}  // namespace distbelief::planner
