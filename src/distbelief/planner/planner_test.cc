#include "distbelief/planner/planner.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "distbelief/compute/layout.h"
#include "distbelief/mesh/shared_state.h"

namespace distbelief::planner {
namespace {

constexpr std::size_t kMega = 1'000'000;

// Six equal blocks; each takes 1 ms forward and 2 ms backward for a lane of 8 samples.
PlanInput six_blocks(int workers, int cores) {
  PlanInput input;
  input.job = {.workers_per_host = {workers}, .batch = 64, .optimizer_arrays = 2};
  input.machine.cores = cores;
  input.machine.base_bytes = 100 * kMega;
  LaneCosts lane{.samples = 8, .blocks = {}};
  lane.blocks.assign(6, {.forward_seconds = 0.001,
                         .backward_seconds = 0.002,
                         .parameter_bytes = 10 * kMega,
                         .activation_bytes = 4 * kMega,
                         .output_bytes = kMega,
                         .working_bytes = 2 * kMega});
  input.lanes = {lane};
  input.given_lanes = 8;
  return input;
}

const PlannedLayout& layout_of(
    const Plan& plan, const mesh::Mesh& mesh,
    mesh::PipelineSchedule schedule = mesh::PipelineSchedule::kOneForwardOneBackward) {
  for (const PlannedLayout& planned : plan.layouts)
    if (planned.layout.mesh == mesh && planned.layout.schedule == schedule) return planned;
  throw std::runtime_error("the plan has no such layout");
}

PlanInput without_tensor(PlanInput input) {
  input.refused = [](const MeshLayout& layout) {
    return layout.mesh.tensor > 1 ? std::optional<std::string>("no tensor") : std::nullopt;
  };
  return input;
}

TEST(Planner, OneWorkerTakesTheSumOfItsLanes) {
  const Plan plan = plan_layouts(six_blocks(1, 1));
  ASSERT_EQ(plan.layouts.size(), 1U);
  EXPECT_NEAR(plan.layouts[0].seconds.total(), 8 * 6 * 0.003, 1e-12);
  EXPECT_NEAR(plan.layouts[0].samples_per_second, 64 / 0.144, 1e-6);
}

TEST(Planner, ByHandTwoReplicasHalveTheTimeAndAPipelineHasItsBubble) {
  const Plan plan = plan_layouts(six_blocks(2, 2));
  EXPECT_NEAR(layout_of(plan, {.data = 2}).seconds.total(), 4 * 6 * 0.003, 1e-12);
  const PlannedLayout& cut = layout_of(plan, {.data = 1, .pipeline = 2});
  EXPECT_NEAR(cut.seconds.total(), (8 + 1) * 3 * 0.003, 1e-12);  // (m + p - 1) turns of 3 blocks
  EXPECT_NEAR(cut.seconds.idle, 1.0 / 9, 1e-9);
  EXPECT_EQ(cut.cuts.ends, (std::vector<int>{3, 6}));
  EXPECT_EQ(plan.layouts[0].layout.mesh, (mesh::Mesh{.data = 2}));
}

TEST(Planner, WorkersBeyondTheCoresAreNotFasterAndItSaysSo) {
  const double two = plan_layouts(six_blocks(2, 2)).layouts[0].seconds.total();
  const Plan four = plan_layouts(without_tensor(six_blocks(4, 2)));
  for (const PlannedLayout& planned : four.layouts) {
    EXPECT_GE(planned.seconds.total(), two * (1 - 1e-9)) << to_string(planned.layout);
    EXPECT_NE(planned.note.find("4 share 2 cores"), std::string::npos) << planned.note;
  }
}

TEST(Planner, ByHandTheMemoryOfAWorker) {
  const Plan plan = plan_layouts(six_blocks(2, 2));
  const WorkerBytes replica = layout_of(plan, {.data = 2}).bytes;
  EXPECT_EQ(replica.parameters, 30 * kMega);     // 60 MB shared by two
  EXPECT_EQ(replica.state, 60 * kMega);          // two arrays, half of each
  EXPECT_EQ(replica.gradients, 3 * 60 * kMega);  // four lanes: three partial sums at once
  EXPECT_EQ(replica.saving, 180 * kMega);
  EXPECT_EQ(replica.activations, 6 * 4 * kMega + 2 * kMega);
  EXPECT_EQ(replica.mapped, 30 * kMega + 60 * kMega + 30 * kMega);
  const WorkerBytes stage = layout_of(plan, {.data = 1, .pipeline = 2}).bytes;
  EXPECT_EQ(stage.parameters, 30 * kMega);
  EXPECT_EQ(stage.state, 60 * kMega);
  EXPECT_EQ(stage.gradients, 4 * 30 * kMega);  // eight lanes: four partial sums
  EXPECT_EQ(stage.mapped, 0U);
}

TEST(Planner, OneForwardOneBackwardKeepsFewerLanesThanGpipe) {
  const Plan plan = plan_layouts(six_blocks(2, 2));
  const mesh::Mesh cut{.data = 1, .pipeline = 2};
  const std::size_t in_turns = layout_of(plan, cut).bytes.activations;
  const std::size_t at_once = layout_of(plan, cut, mesh::PipelineSchedule::kGpipe).bytes.activations;
  EXPECT_EQ(in_turns, 2 * 3 * 4 * kMega + 2 * kMega);
  // The last stage also keeps its input for all eight lanes.
  EXPECT_EQ(at_once, 8 * (3 * 4 + 1) * kMega + 2 * kMega);
}

TEST(Planner, LessMemoryNeverAddsALayoutAndSaysHowMuchIsMissing) {
  std::size_t fit_before = 100;
  for (const std::size_t limit : {std::size_t{0}, 700 * kMega, 500 * kMega, 300 * kMega, 150 * kMega}) {
    PlanInput input = without_tensor(six_blocks(4, 4));
    input.memory_limit = limit;
    const Plan plan = plan_layouts(input);
    EXPECT_LE(plan.layouts.size(), fit_before) << limit;
    fit_before = plan.layouts.size();
    for (const PlannedLayout& planned : plan.layouts)
      EXPECT_TRUE(limit == 0 || planned.bytes.total() <= limit);
    for (const LeftOut& left : plan.left_out)
      EXPECT_TRUE(left.bytes_needed == 0 || left.bytes_needed > limit) << left.reason;
  }
  EXPECT_EQ(fit_before, 0U);
}

TEST(Planner, NamesTheLayoutThatNeedsLeast) {
  PlanInput input = without_tensor(six_blocks(4, 4));
  input.memory_limit = 1;
  const Plan plan = plan_layouts(input);
  const LeftOut* least = smallest_left_out(plan);
  ASSERT_NE(least, nullptr);
  for (const LeftOut& left : plan.left_out)
    EXPECT_TRUE(left.bytes_needed == 0 || left.bytes_needed >= least->bytes_needed) << left.reason;
  EXPECT_NE(least->reason.find("does not fit"), std::string::npos);
}

TEST(Planner, ASlowerLayoutThatNeedsMoreNeverComesFirst) {
  const Plan plan = plan_layouts(without_tensor(six_blocks(4, 4)));
  for (std::size_t a = 0; a < plan.layouts.size(); ++a)
    for (std::size_t b = a + 1; b < plan.layouts.size(); ++b)
      EXPECT_FALSE(plan.layouts[a].seconds.total() > plan.layouts[b].seconds.total() &&
                   plan.layouts[a].bytes.total() > plan.layouts[b].bytes.total())
          << to_string(plan.layouts[a].layout) << " before " << to_string(plan.layouts[b].layout);
}

TEST(Planner, RecomputationComesInWhenActivationsDoNotFit) {
  PlanInput input = without_tensor(six_blocks(2, 2));
  const mesh::Mesh cut{.data = 1, .pipeline = 2};
  for (mesh::BlockCost& block : input.lanes[0].blocks) block.activation_bytes = 400 * kMega;
  input.memory_limit = layout_of(plan_layouts(input), cut).bytes.total() - 1;
  const PlannedLayout planned = layout_of(plan_layouts(input), cut);
  EXPECT_TRUE(planned.layout.recompute);
  EXPECT_LE(planned.bytes.total(), input.memory_limit);
}

TEST(Planner, ZeroHoldsLessWithEachLevelAndIsTriedWhenThereIsNoRoom) {
  PlanInput input = without_tensor(six_blocks(4, 4));
  input.job.bucket_bytes = kMega;
  input.memory_limit = layout_of(plan_layouts(input), {.data = 4}).bytes.total() - 1;
  EXPECT_EQ(layout_of(plan_layouts(input), {.data = 4}).layout.zero, 2);
  std::size_t before = input.memory_limit + 2;
  for (input.zero = 1; input.zero <= 2; ++input.zero) {
    input.memory_limit = 0;
    const std::size_t bytes = layout_of(plan_layouts(input), {.data = 4}).bytes.total();
    EXPECT_LT(bytes, before);
    before = bytes;
  }
}

TEST(Planner, CutsElsewhereWhenTheFastestCutsDoNotFit) {
  PlanInput input = without_tensor(six_blocks(2, 2));
  for (int block = 3; block < 6; ++block) input.lanes[0].blocks[std::size_t(block)].parameter_bytes *= 2;
  input.recompute = true;  // leaves only the cuts to try
  const mesh::Mesh mesh{.data = 1, .pipeline = 2};
  const PlannedLayout fastest = layout_of(plan_layouts(input), mesh);
  EXPECT_EQ(fastest.cuts.ends, (std::vector<int>{3, 6}));
  EXPECT_FALSE(fastest.cut_for_memory);
  input.memory_limit = fastest.bytes.total() - 1;
  const PlannedLayout smaller = layout_of(plan_layouts(input), mesh);
  EXPECT_EQ(smaller.cuts.ends, (std::vector<int>{4, 6}));
  EXPECT_TRUE(smaller.cut_for_memory);
  EXPECT_LE(smaller.bytes.total(), input.memory_limit);
  EXPECT_GT(smaller.seconds.total(), fastest.seconds.total());
}

TEST(Planner, SnapshotsHoldTheWholeNetworkHoweverItIsSliced) {
  PlanInput input = six_blocks(2, 2);
  input.job.snapshots = true;
  input.tensor_splits[2].assign(6, {.share = 1, .exchanges = 1});
  const Plan plan = plan_layouts(input);
  EXPECT_EQ(layout_of(plan, {.data = 1, .pipeline = 1, .tensor = 2}).bytes.snapshots,
            layout_of(plan, {.data = 2}).bytes.snapshots);
}

TEST(Planner, LeavesOutWhatCannotBeWithTheReason) {
  PlanInput input = without_tensor(six_blocks(8, 8));
  input.given_lanes = 4;
  const Plan plan = plan_layouts(input);
  const auto reason_of = [&](const mesh::Mesh& mesh) {
    for (const LeftOut& left : plan.left_out)
      if (left.layout.mesh == mesh) return left.reason;
    return std::string("it was not left out");
  };
  EXPECT_EQ(reason_of({.data = 8}), "4 lanes for 8 replicas");
  EXPECT_EQ(reason_of({.data = 1, .pipeline = 8}), "8 stages, but the network has 6 blocks");
  EXPECT_EQ(reason_of({.data = 4, .pipeline = 1, .tensor = 2}), "no tensor");
  input.given_lanes = 128;
  for (const LeftOut& left : plan_layouts(input).left_out)
    EXPECT_NE(left.reason.find("a batch of 64 has not a sample for each of 128 lanes"), std::string::npos);
}

TEST(Planner, ATensorGroupSplitsWhatItCanAndPaysForItsMeetings) {
  PlanInput input = six_blocks(2, 2);
  input.machine.sharing.meet_seconds = 1e-4;
  input.machine.copy_bytes_per_second = 1e10;
  input.tensor_splits[2].assign(6, {.share = 1, .exchanges = 2});
  const PlannedLayout& planned = layout_of(plan_layouts(input), {.data = 1, .pipeline = 1, .tensor = 2});
  // Half the time and two exchanges of a megabyte per block and lane, plus the step's own.
  EXPECT_NEAR(planned.seconds.total(), 8 * 6 * (0.0015 + 2 * (1e-4 + 1e-4)) + 1e-4, 1e-9);
  EXPECT_EQ(planned.bytes.parameters, 30 * kMega);
}

TEST(Planner, AFastLinkIsHiddenAndASlowOneIsNot) {
  PlanInput input = without_tensor(six_blocks(2, 1));
  input.job.workers_per_host = {1, 1};
  input.job.bucket_bytes = 60 * kMega;
  input.machine.between_hosts = {.latency_seconds = 0, .bytes_per_second = 1e11};
  const double fast = layout_of(plan_layouts(input), {.data = 2}).seconds.total();
  EXPECT_NEAR(fast, 4 * 6 * 0.003, 1e-12);
  input.machine.between_hosts.bytes_per_second = 1e8;
  // 60 MB are sent, minus the part hidden by the last lane's backward of 12 ms.
  EXPECT_NEAR(layout_of(plan_layouts(input), {.data = 2}).seconds.total(), fast + 0.6 - 0.012, 1e-9);
}

TEST(Planner, ParametersThatAreSharedOutAreFetchedInEachPass) {
  PlanInput input = without_tensor(six_blocks(2, 2));
  const double there = layout_of(plan_layouts(input), {.data = 2}).seconds.total();
  const double cut = layout_of(plan_layouts(input), {.data = 1, .pipeline = 2}).seconds.total();
  input.machine.fetch_bytes_per_second = 1e9;
  input.zero = 3;
  // 60 MB forward and backward, for each lane of a copy.
  const PlannedLayout& planned = layout_of(plan_layouts(input), {.data = 2});
  EXPECT_NEAR(planned.seconds.total(), there + double(planned.layout.lanes) / 2 * 2 * 0.06, 1e-9);
  // A single copy shares out nothing.
  EXPECT_NEAR(layout_of(plan_layouts(input), {.data = 1, .pipeline = 2}).seconds.total(), cut, 1e-9);
  input.machine.cores = 4;  // idle cores prefetch
  EXPECT_NEAR(layout_of(plan_layouts(input), {.data = 2}).seconds.total(), there, 1e-9);
}

TEST(Planner, MeasuresEverySizeOfLaneThatALayoutMayHave) {
  EXPECT_EQ(lane_sizes({.workers_per_host = {2}, .batch = 64}, 0), (std::vector<std::int64_t>{8, 32, 64}));
  EXPECT_EQ(lane_sizes({.workers_per_host = {4}, .batch = 64}, 16), (std::vector<std::int64_t>{4}));
}

// The planner's count equals the memory that SharedState lays out.
TEST(Planner, CountsTheArraysOfSharedState) {
  const compute::Layout layout({{"weight", {1024, 4096}}}, std::size_t{4} << 20);
  for (const int replicas : {1, 2, 4})
    for (const bool keeps_sums : {false, true}) {
      const std::int64_t lanes = 8;
      const mesh::LanePlan lane_plan = mesh::plan_lanes(lanes, {replicas}, 1);
      const std::size_t segment = mesh::SharedState::bytes_needed({.layout = &layout,
                                                                   .plan = &lane_plan,
                                                                   .host = 0,
                                                                   .states = 2,
                                                                   .buffers = 0,
                                                                   .keeps_sums = keeps_sums});
      PlanInput input = without_tensor(six_blocks(replicas, replicas));
      input.job.keeps_sums = keeps_sums;
      input.lanes[0].blocks.resize(1);
      input.lanes[0].blocks[0].parameter_bytes = layout.size() * sizeof(float);
      const WorkerBytes bytes = layout_of(plan_layouts(input), {.data = replicas}).bytes;
      const std::size_t planned =
          std::size_t(replicas) * (bytes.parameters + bytes.state + bytes.gradients + bytes.sums);
      EXPECT_NEAR(double(planned), double(segment), 0.01 * double(segment)) << replicas << keeps_sums;
    }
}

}  // namespace
}  // namespace distbelief::planner
