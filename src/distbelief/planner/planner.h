#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/planner/layout_costs.h"

// Which layouts of a job there are on so many workers, what each would cost, and which to take. Pure. Any
// thread.
namespace distbelief::planner {

struct PlanInput {
  LayoutJob job;
  MachineCosts machine;
  std::vector<LaneCosts> lanes;  // by size; what is not there is scaled from the nearest
  std::map<int, std::vector<TensorSplit>> tensor_splits{};  // by parallel.tensor, per block
  std::int64_t given_lanes = 0;                             // 0: as many as suit the mesh
  bool recompute = false;
  int zero = 1;
  std::size_t memory_limit = 0;  // per worker; 0: none
  // Why the program cannot train a layout, or nothing.
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
  std::size_t bytes_needed = 0;  // where it is only memory that is missing; 0: something else
};

struct Plan {
  std::vector<PlannedLayout> layouts;  // best first: fastest, of equally fast ones the smallest
  std::vector<LeftOut> left_out;
};

// Samples of the largest lane of every layout that may be: what LaneCosts to measure.
std::vector<std::int64_t> lane_sizes(const LayoutJob& job, std::int64_t given_lanes);

// Every mesh of the workers with every schedule. A layout that needs more than the limit is tried again with
// recomputation, then with zero 2 and 3; one that still does not fit is left out.
Plan plan_layouts(const PlanInput& input);

// Of those that only memory rules out the one that needs least; nothing: there is none.
const LeftOut* smallest_left_out(const Plan& plan);

}  // namespace distbelief::planner
