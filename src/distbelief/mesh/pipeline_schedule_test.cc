#include "distbelief/mesh/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "distbelief/mesh/pipeline_time.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::mesh {
namespace {

using Kind = PipelineAction::Kind;
using Actions = std::vector<PipelineAction>;
constexpr auto kGpipe = PipelineSchedule::kGpipe;
constexpr auto k1f1b = PipelineSchedule::kOneForwardOneBackward;
constexpr auto kInterleaved = PipelineSchedule::kInterleaved;

// Calls `check` for every shape of 1 to 5 places, 1 to 3 chunks and 1 to 12 lanes that a schedule accepts.
void for_each_shape(const std::function<void(PipelineSchedule, const PipelineShape&)>& check) {
  for (const PipelineSchedule schedule : {kGpipe, k1f1b, kInterleaved})
    for (int pipeline = 1; pipeline <= 5; ++pipeline)
      for (int chunks = 1; chunks <= (schedule == kInterleaved ? 3 : 1); ++chunks)
        for (std::int64_t lanes = 1; lanes <= 12; ++lanes) {
          if (schedule == kInterleaved && lanes % pipeline != 0) continue;
          SCOPED_TRACE(::testing::Message() << to_string(schedule) << ", pipeline " << pipeline << ", chunks "
                                            << chunks << ", lanes " << lanes);
          check(schedule, {.pipeline = pipeline, .chunks = chunks, .lanes = lanes});
        }
}

// "F0.2": forward of lane 2 through stage 0.
std::string written(const Actions& actions) {
  std::string text;
  for (const PipelineAction& action : actions)
    text += (text.empty() ? "" : " ") + std::string(action.kind == Kind::kForward ? "F" : "B") +
            std::to_string(action.stage) + "." + std::to_string(action.lane);
  return text;
}

// Runs the lists of all places with blocking receives and buffered sends. A channel carries messages of one
// kind (activations or gradients) from one place to another, first in first out.
class Places {
 public:
  Places(PipelineSchedule schedule, const PipelineShape& shape) : shape_(shape) {
    for (int place = 0; place < shape.pipeline; ++place) {
      const Actions actions = pipeline_actions(schedule, shape, place);
      left_.emplace_back(actions.begin(), actions.end());
    }
  }

  // Returns true when every place completes its list and no message is left over.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int place = 0; place < shape_.pipeline; ++place)
        while (step(place)) moved = true;
    }
    for (const auto& left : left_)
      if (!left.empty()) return false;
    for (const auto& [key, channel] : channels_)
      if (!channel.empty()) return false;
    return true;
  }

 private:
  using Message = std::tuple<int, std::int64_t>;  // stage and lane of the receiver

  std::deque<Message>& channel(Kind kind, int from_stage, int to_stage) {
    return channels_[{kind, shape_.place_of_stage(from_stage), shape_.place_of_stage(to_stage)}];
  }

  bool step(int place) {
    auto& left = left_[std::size_t(place)];
    if (left.empty()) return false;
    const PipelineAction action = left.front();
    const int last = shape_.stages() - 1;
    const bool forward = action.kind == Kind::kForward;
    const int source = action.stage + (forward ? -1 : 1);
    if (source >= 0 && source <= last) {
      auto& incoming = channel(action.kind, source, action.stage);
      if (incoming.empty() || incoming.front() != Message(action.stage, action.lane)) return false;
      incoming.pop_front();
    }
    const int target = action.stage + (forward ? 1 : -1);
    if (target >= 0 && target <= last)
      channel(action.kind, action.stage, target).push_back({target, action.lane});
    left.pop_front();
    return true;
  }

  PipelineShape shape_;
  std::vector<std::deque<PipelineAction>> left_;
  std::map<std::tuple<Kind, int, int>, std::deque<Message>> channels_;
};

TEST(PipelineSchedule, HasNamesThatAreReadBack) {
  for (const PipelineSchedule schedule : {kGpipe, k1f1b, kInterleaved})
    EXPECT_EQ(parse_pipeline_schedule(std::string(to_string(schedule))), schedule);
  EXPECT_EQ(to_string(k1f1b), "1f1b");
}

TEST(PipelineSchedule, AnUnknownNameIsAnsweredWithTheNearest) {
  EXPECT_EQ(testing::refusal([] { parse_pipeline_schedule("g-pipe"); }),
            "no pipeline schedule is named 'g-pipe'; did you mean 'gpipe'? Known: gpipe, 1f1b, interleaved");
  EXPECT_EQ(testing::refusal([] { parse_pipeline_schedule("zero-bubble"); }),
            "no pipeline schedule is named 'zero-bubble'. Known: gpipe, 1f1b, interleaved");
}

TEST(PipelineSchedule, EveryStageSeesEveryLaneOnceForwardAndThenOnceBackwardInAscendingOrder) {
  for_each_shape([](PipelineSchedule schedule, const PipelineShape& shape) {
    std::set<int> stages;
    for (int place = 0; place < shape.pipeline; ++place) {
      std::map<int, std::int64_t> forward, backward;
      for (const PipelineAction& action : pipeline_actions(schedule, shape, place)) {
        EXPECT_EQ(action.stage % shape.pipeline, place);
        stages.insert(action.stage);
        auto& next = action.kind == Kind::kForward ? forward : backward;
        EXPECT_EQ(action.lane, next[action.stage]++) << "stage " << action.stage;
        EXPECT_LE(backward[action.stage], forward[action.stage]) << "backward before forward";
      }
      EXPECT_EQ(int(forward.size()), shape.chunks);
      for (const auto& [stage, lanes] : forward) EXPECT_EQ(lanes, shape.lanes);
      for (const auto& [stage, lanes] : backward) EXPECT_EQ(lanes, shape.lanes);
    }
    EXPECT_EQ(int(stages.size()), shape.stages());
    EXPECT_EQ(*stages.rbegin(), shape.stages() - 1);
  });
}

TEST(PipelineSchedule, NoPlaceWaitsForEver) {
  for_each_shape([](PipelineSchedule schedule, const PipelineShape& shape) {
    EXPECT_TRUE(Places(schedule, shape).run());
  });
}

TEST(PipelineSchedule, GpipeKeepsAllLanes) {
  EXPECT_EQ(written(pipeline_actions(kGpipe, {.pipeline = 2, .lanes = 3}, 1)),
            "F1.0 F1.1 F1.2 B1.0 B1.1 B1.2");
  for (int place = 0; place < 4; ++place)
    EXPECT_EQ(most_alive(pipeline_actions(kGpipe, {.pipeline = 4, .lanes = 7}, place), place), 7);
}

TEST(PipelineSchedule, OneForwardOneBackwardKeepsNoMoreThanThePlacesThatFollow) {
  EXPECT_EQ(written(pipeline_actions(k1f1b, {.pipeline = 3, .lanes = 4}, 0)),
            "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3");
  EXPECT_EQ(written(pipeline_actions(k1f1b, {.pipeline = 3, .lanes = 2}, 2)), "F2.0 B2.0 F2.1 B2.1");
  for (int pipeline = 1; pipeline <= 5; ++pipeline)
    for (int lanes = 1; lanes <= 12; ++lanes)
      for (int place = 0; place < pipeline; ++place)
        EXPECT_EQ(most_alive(pipeline_actions(k1f1b, {.pipeline = pipeline, .lanes = lanes}, place), place),
                  std::min(lanes, pipeline - place));
}

TEST(PipelineSchedule, InterleavedGoesAsMegatronDoes) {
  const PipelineShape shape{.pipeline = 2, .chunks = 2, .lanes = 4};
  EXPECT_EQ(written(pipeline_actions(kInterleaved, shape, 0)),
            "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3");
  EXPECT_EQ(written(pipeline_actions(kInterleaved, shape, 1)),
            "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3");
}

TEST(PipelineSchedule, InterleavedWarmsUpAsLongAsMegatronDoes) {
  for_each_shape([](PipelineSchedule schedule, const PipelineShape& shape) {
    if (schedule != kInterleaved || shape.chunks == 1) return;
    for (int place = 0; place < shape.pipeline; ++place) {
      const std::int64_t warm_up = (shape.pipeline - place - 1) * 2 + (shape.chunks - 1) * shape.pipeline;
      const Actions actions = pipeline_actions(schedule, shape, place);
      std::int64_t forwards = 0;
      while (actions[std::size_t(forwards)].kind == Kind::kForward) ++forwards;
      EXPECT_EQ(forwards, std::min(warm_up + 1, shape.lanes * shape.chunks)) << "place " << place;
    }
  });
}

TEST(PipelineSchedule, InterleavedWithOneChunkIsOneForwardOneBackward) {
  const PipelineShape shape{.pipeline = 3, .lanes = 6};
  for (int place = 0; place < 3; ++place)
    EXPECT_EQ(pipeline_actions(kInterleaved, shape, place), pipeline_actions(k1f1b, shape, place));
}

TEST(PipelineSchedule, RefusesShapesWithoutAnOrderAndSaysWhatWouldDo) {
  EXPECT_EQ(
      testing::refusal([] { require_schedulable(kInterleaved, {.pipeline = 4, .chunks = 2, .lanes = 6}); }),
      "interleaved wants a number of lanes per replica that is a multiple of parallel.pipeline 4, found 6; "
      "take 4 or 8");
  EXPECT_EQ(
      testing::refusal([] { pipeline_actions(kInterleaved, {.pipeline = 4, .chunks = 2, .lanes = 3}, 0); }),
      "interleaved wants a number of lanes per replica that is a multiple of parallel.pipeline 4, found 3; "
      "take 4");
  EXPECT_EQ(testing::refusal([] { require_schedulable(k1f1b, {.pipeline = 2, .chunks = 2, .lanes = 6}); }),
            "1f1b wants 1 chunk per place, found 2; take 1, or the schedule interleaved");
  EXPECT_EQ(testing::refusal([] { require_schedulable(kGpipe, {.pipeline = 2, .lanes = 0}); }),
            "a pipeline wants 1 or more places, chunks per place and lanes per replica; found 2, 1 and 0");
  EXPECT_EQ(testing::refusal([] { require_schedulable(k1f1b, {.pipeline = 4, .lanes = 3}); }), "accepted");
}

std::vector<StageCost> equal_stages(const PipelineShape& shape, const StageCost& cost) {
  return std::vector<StageCost>(std::size_t(shape.stages()), cost);
}

TEST(SimulateStep, EqualStagesTakeTheTimeOfTheClosedForm) {
  for (const PipelineSchedule schedule : {kGpipe, k1f1b})
    for (int pipeline = 1; pipeline <= 5; ++pipeline)
      for (int lanes = 1; lanes <= 12; ++lanes) {
        const PipelineShape shape{.pipeline = pipeline, .lanes = lanes};
        const double found =
            simulate_step(schedule, shape, equal_stages(shape, {.forward = 1, .backward = 2.5}));
        EXPECT_DOUBLE_EQ(found, (lanes + pipeline - 1) * 3.5) << to_string(schedule) << pipeline << lanes;
      }
}

TEST(SimulateStep, InterleavedDividesTheBubbleByTheChunks) {
  for (int pipeline = 2; pipeline <= 5; ++pipeline)
    for (int chunks = 1; chunks <= 3; ++chunks)
      for (int groups = 1; groups <= 3; ++groups) {
        const PipelineShape shape{.pipeline = pipeline, .chunks = chunks, .lanes = groups * pipeline};
        const double found = simulate_step(
            kInterleaved, shape, equal_stages(shape, {.forward = 1.0 / chunks, .backward = 2.0 / chunks}));
        const double bubble = 3.0 * (pipeline - 1) / chunks;
        EXPECT_NEAR(found, 3.0 * double(shape.lanes) + bubble, 1e-9) << pipeline << chunks << groups;
      }
}

TEST(SimulateStep, TheSlowestStageSetsThePace) {
  const std::vector<StageCost> costs{{.forward = 1, .backward = 1}, {.forward = 3, .backward = 3}};
  EXPECT_DOUBLE_EQ(simulate_step(k1f1b, {.pipeline = 2, .lanes = 10}, costs), 1 + 10 * 6 + 1);
}

TEST(SimulateStep, SendsGoOnBesideComputeButOneAfterAnotherOnALink) {
  const PipelineShape shape{.pipeline = 2, .lanes = 4};
  // Only the first activation and the last gradient cause a wait; GPipe hides the other transfers.
  EXPECT_DOUBLE_EQ(
      simulate_step(kGpipe, shape, equal_stages(shape, {.forward = 1, .backward = 1, .transfer = 0.5})),
      5 * 2 + 2 * 0.5);
  // The link is slower than compute: four activations go one after another, then four gradients, which begin
  // after the last forward.
  EXPECT_DOUBLE_EQ(
      simulate_step(kGpipe, shape, equal_stages(shape, {.forward = 1, .backward = 1, .transfer = 3})),
      1 + 4 * 3 + 1 + 1 + 4 * 3 + 1);
}

TEST(SimulateStep, StagesOfOnePlaceHandOnForNothing) {
  const PipelineShape shape{.pipeline = 1, .chunks = 3, .lanes = 2};
  EXPECT_DOUBLE_EQ(
      simulate_step(kInterleaved, shape, equal_stages(shape, {.forward = 1, .backward = 2, .transfer = 100})),
      3 * 3 * 2);
}

TEST(SimulateStep, MoreTransferNeverMakesAStepFaster) {
  for_each_shape([](PipelineSchedule schedule, const PipelineShape& shape) {
    double before = 0;
    for (const double transfer : {0.0, 0.1, 0.7, 2.0}) {
      const double found = simulate_step(
          schedule, shape, equal_stages(shape, {.forward = 1, .backward = 2, .transfer = transfer}));
      EXPECT_GE(found, before);
      EXPECT_GE(found, 3.0 * double(shape.lanes) * shape.chunks) << "a place cannot do its work faster";
      before = found;
    }
  });
}

}  // namespace
}  // namespace distbelief::mesh
