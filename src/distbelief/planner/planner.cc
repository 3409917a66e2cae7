#include "distbelief/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "distbelief/base/error.h"
#include "distbelief/base/parallel_defaults.h"

namespace distbelief::planner {
namespace {

int workers_of(const LayoutJob& job) {
  return std::accumulate(job.workers_per_host.begin(), job.workers_per_host.end(), 0);
}

std::vector<mesh::Mesh> meshes_of(int workers) {
  std::vector<mesh::Mesh> meshes;
  for (int tensor = 1; tensor <= workers; ++tensor)
    for (int pipeline = 1; tensor * pipeline <= workers; ++pipeline)
      if (workers % (tensor * pipeline) == 0)
        meshes.push_back({.data = workers / (tensor * pipeline), .pipeline = pipeline, .tensor = tensor});
  return meshes;
}

// The lanes that training would use; without given lanes, the default for the mesh.
std::int64_t lanes_of(const mesh::Mesh& mesh, const LayoutJob& job, std::int64_t given) {
  if (given > 0) return given;
  ParallelConfig parallel;
  parallel.workers = mesh.workers();
  parallel.threads = job.threads;
  parallel.pipeline = mesh.pipeline;
  parallel.tensor = mesh.tensor;
  return job.accumulate * default_lanes(parallel);
}

std::string bytes_text(std::size_t bytes) { return fmt::format("{:.2f} GiB", double(bytes) / (1 << 30)); }

LaneCosts scaled(const LaneCosts& from, std::int64_t samples) {
  const double factor = double(samples) / double(from.samples);
  const auto grown = [&](std::size_t bytes) { return std::size_t(double(bytes) * factor); };
  LaneCosts costs = from;
  costs.samples = samples;
  costs.data_seconds *= factor;
  costs.input_bytes = grown(costs.input_bytes);
  for (mesh::BlockCost& block : costs.blocks) {
    block.forward_seconds *= factor;
    block.backward_seconds *= factor;
    block.activation_bytes = grown(block.activation_bytes);
    block.working_bytes = grown(block.working_bytes);
    block.forward_bytes = grown(block.forward_bytes);
    block.output_bytes = grown(block.output_bytes);
  }
  return costs;
}

LaneCosts costs_of(const std::vector<LaneCosts>& measured, std::int64_t samples) {
  DISTBELIEF_INVARIANT(!measured.empty());
  const auto distance = [&](const LaneCosts& costs) {
    return std::abs(std::log(double(costs.samples) / double(samples)));
  };
  const auto nearest = std::min_element(measured.begin(), measured.end(), [&](const auto& a, const auto& b) {
    return distance(a) < distance(b);
  });
  return nearest->samples == samples ? *nearest : scaled(*nearest, samples);
}

std::int64_t largest_lane(std::int64_t batch, std::int64_t lanes) { return (batch + lanes - 1) / lanes; }

class Planner {
 public:
  explicit Planner(const PlanInput& input) : in_(input) {}

  Plan plan() {
    for (const mesh::Mesh& mesh : meshes_of(workers_of(in_.job))) {
      const std::int64_t lanes = lanes_of(mesh, in_.job, in_.given_lanes);
      MeshLayout layout{.mesh = mesh, .zero = in_.zero, .recompute = in_.recompute, .lanes = lanes};
      consider(layout);
      if (mesh.pipeline == 1) continue;
      layout.schedule = mesh::PipelineSchedule::kGpipe;
      consider(layout);
      layout.schedule = mesh::PipelineSchedule::kInterleaved;
      layout.chunks = kInterleavedStages;
      consider(layout);
    }
    std::stable_sort(plan_.layouts.begin(), plan_.layouts.end(), is_better);
    return std::move(plan_);
  }

 private:
  // Times that agree in three digits count as equal, because they cannot be told apart.
  static bool is_better(const PlannedLayout& a, const PlannedLayout& b) {
    const auto rank = [](const PlannedLayout& planned) {
      const double seconds = std::max(1e-9, planned.seconds.total());
      const double unit = std::pow(10.0, std::floor(std::log10(seconds)) - 2);
      return std::pair(std::round(seconds / unit) * unit, planned.bytes.total());
    };
    return rank(a) < rank(b);
  }

  void consider(const MeshLayout& layout) {
    if (const std::string reason = impossible(layout); !reason.empty()) {
      plan_.left_out.push_back({layout, reason, 0});
      return;
    }
    std::optional<PlannedLayout> smallest;
    for (const MeshLayout& variant : variants(layout)) {
      PlannedLayout planned = predicted(variant);
      const bool fits = in_.memory_limit == 0 || planned.bytes.total() <= in_.memory_limit;
      if (!smallest || planned.bytes.total() < smallest->bytes.total()) smallest = planned;
      if (!fits) continue;
      plan_.layouts.push_back(std::move(planned));
      return;
    }
    const std::size_t needed = smallest->bytes.total();
    plan_.left_out.push_back({smallest->layout,
                              fmt::format("does not fit: needs {}, which is {} more than the limit",
                                          bytes_text(needed), bytes_text(needed - in_.memory_limit)),
                              needed});
  }

  std::string impossible(const MeshLayout& layout) const {
    const std::int64_t carriers = std::int64_t(layout.mesh.data) * in_.job.threads;
    if (layout.lanes < carriers) return fmt::format("{} lanes for {} replicas", layout.lanes, carriers);
    if (in_.job.batch < layout.lanes)
      return fmt::format("a batch of {} has not a sample for each of {} lanes", in_.job.batch, layout.lanes);
    const int stages = layout.mesh.pipeline * layout.chunks;
    const auto blocks = std::ssize(in_.lanes.at(0).blocks);
    if (stages > blocks) return fmt::format("{} stages, but the network has {} blocks", stages, blocks);
    if (layout.mesh.pipeline > 1) try {
        if (layout.schedule == mesh::PipelineSchedule::kInterleaved && layout.lanes % layout.mesh.data != 0)
          return fmt::format("{} lanes cannot be dealt evenly to {} replicas", layout.lanes,
                             layout.mesh.data);
        mesh::require_schedulable(layout.schedule, {.pipeline = layout.mesh.pipeline,
                                                    .chunks = layout.chunks,
                                                    .lanes = layout.lanes / layout.mesh.data});
      } catch (const Error& error) {
        return error.message();
      }
    if (in_.refused)
      if (const auto reason = in_.refused(layout)) return *reason;
    return {};
  }

  std::vector<MeshLayout> variants(const MeshLayout& layout) const {
    std::vector<MeshLayout> all{layout};
    if (layout.mesh.pipeline > 1 && !layout.recompute) {
      all.push_back(layout);
      all.back().recompute = true;
    }
    for (int zero = layout.zero + 1; zero <= 3 && layout.mesh.data > 1; ++zero) {
      MeshLayout shared = all.back();
      shared.zero = zero;
      if (!in_.refused || !in_.refused(shared)) all.push_back(shared);
    }
    return all;
  }

  PlannedLayout predicted(const MeshLayout& layout) const {
    const LaneCosts lane = costs_of(in_.lanes, largest_lane(in_.job.batch, layout.lanes));
    const auto splits = in_.tensor_splits.find(layout.mesh.tensor);
    const std::vector<mesh::BlockCost> blocks =
        split_blocks(lane, splits == in_.tensor_splits.end() ? std::vector<TensorSplit>() : splits->second,
                     layout.mesh.tensor, in_.machine);
    PlannedLayout planned;
    planned.layout = layout;
    planned.cuts = mesh::choose_cuts(blocks, layout.mesh.pipeline * layout.chunks, {});
    if (const auto smaller = cuts_that_fit(planned, lane, blocks)) {
      planned.cuts = *smaller;
      planned.cut_for_memory = true;
    }
    const LayoutInput input{in_.job, in_.machine, lane, blocks, planned.cuts};
    planned.seconds = predict_seconds(layout, input);
    planned.bytes = predict_bytes(layout, input);
    planned.samples_per_second = double(in_.job.batch) / planned.seconds.total();
    planned.note = note_of(planned);
    return planned;
  }

  // Slower cuts when those of `planned` exceed the limit: the first whose fullest stage is small enough.
  std::optional<mesh::Cuts> cuts_that_fit(const PlannedLayout& planned, const LaneCosts& lane,
                                          const std::vector<mesh::BlockCost>& blocks) const {
    constexpr double kStep = 0.05, kLeast = 0.3;  // of the fullest stage's memory
    const MeshLayout& layout = planned.layout;
    const int stages = layout.mesh.pipeline * layout.chunks;
    const auto fits = [&](const mesh::Cuts& cuts) {
      return predict_bytes(layout, {in_.job, in_.machine, lane, blocks, cuts}).total() <= in_.memory_limit;
    };
    if (stages == 1 || in_.memory_limit == 0 || fits(planned.cuts)) return std::nullopt;
    mesh::CutLimits limits{.bytes_per_parameter_byte = 2.0 + in_.job.optimizer_arrays,
                           .lanes_alive = layout.recompute ? 1 : layout.mesh.pipeline};
    double fullest = 0;
    for (int stage = 0, begin = 0; stage < stages; begin = planned.cuts.ends[std::size_t(stage++)])
      fullest = std::max(
          fullest, mesh::stage_bytes(
                       std::span(blocks).subspan(std::size_t(begin),
                                                 std::size_t(planned.cuts.ends[std::size_t(stage)] - begin)),
                       limits));
    for (double share = 1 - kStep; share > kLeast; share -= kStep) try {
        limits.memory_bytes = std::size_t(share * fullest);
        if (mesh::Cuts cuts = mesh::choose_cuts(blocks, stages, limits); fits(cuts)) return cuts;
      } catch (const Error&) {
        return std::nullopt;  // no cuts have such small stages
      }
    return std::nullopt;
  }

  std::string note_of(const PlannedLayout& planned) const {
    std::vector<std::string> parts;
    const int busy =
        *std::max_element(in_.job.workers_per_host.begin(), in_.job.workers_per_host.end()) * in_.job.threads;
    if (busy > in_.machine.cores)
      parts.push_back(
          fmt::format("{} share {} core{}", busy, in_.machine.cores, in_.machine.cores == 1 ? "" : "s"));
    if (planned.layout.mesh.pipeline > 1)
      parts.push_back(
          fmt::format("idle {:.0f} %, balance {:.2f}", 100 * planned.seconds.idle, planned.cuts.balance));
    std::string note;
    for (const std::string& part : parts) note += (note.empty() ? "" : "; ") + part;
    return note;
  }

  const PlanInput& in_;
  Plan plan_;
};

}  // namespace

std::string to_string(const MeshLayout& layout) {
  std::string text = fmt::format("data {}", layout.mesh.data);
  if (layout.mesh.pipeline > 1) text += fmt::format(" x pipeline {}", layout.mesh.pipeline);
  if (layout.mesh.tensor > 1) text += fmt::format(" x tensor {}", layout.mesh.tensor);
  if (layout.zero > 1) text += fmt::format(", zero {}", layout.zero);
  if (layout.mesh.pipeline > 1) text += fmt::format(", {}", to_string(layout.schedule));
  if (layout.recompute && layout.mesh.pipeline > 1) text += ", recompute";
  return text + fmt::format(", {} lane{}", layout.lanes, layout.lanes == 1 ? "" : "s");
}

std::vector<std::int64_t> lane_sizes(const LayoutJob& job, std::int64_t given_lanes) {
  std::set<std::int64_t> sizes;
  for (const mesh::Mesh& mesh : meshes_of(workers_of(job))) {
    const std::int64_t lanes = lanes_of(mesh, job, given_lanes);
    sizes.insert(std::max<std::int64_t>(1, largest_lane(job.batch, lanes)));
  }
  return {sizes.begin(), sizes.end()};
}

Plan plan_layouts(const PlanInput& input) { return Planner(input).plan(); }

const LeftOut* smallest_left_out(const Plan& plan) {
  const LeftOut* smallest = nullptr;
  for (const LeftOut& left : plan.left_out)
    if (left.bytes_needed > 0 && (!smallest || left.bytes_needed < smallest->bytes_needed)) smallest = &left;
  return smallest;
}

}  // namespace distbelief::planner
