#include "distbelief/mesh/pipeline_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/options.h"

namespace distbelief::mesh {
namespace {

using Kind = PipelineAction::Kind;

constexpr std::array<std::pair<PipelineSchedule, std::string_view>, 3> kNames{{
    {PipelineSchedule::kGpipe, "gpipe"},
    {PipelineSchedule::kOneForwardOneBackward, "1f1b"},
    {PipelineSchedule::kInterleaved, "interleaved"},
}};

// The action with number `step` among a place's forwards or backwards. Lanes go in groups of as many as there
// are places; a group passes all stages of the place before the next group begins, as in Megatron-LM.
PipelineAction nth(Kind kind, const PipelineShape& shape, int place, std::int64_t step) {
  const std::int64_t group_steps = std::int64_t(shape.pipeline) * shape.chunks;
  const std::int64_t in_group = step % group_steps;
  const int turn = int(in_group / shape.pipeline);
  const int chunk = kind == Kind::kForward ? turn : shape.chunks - 1 - turn;
  return {.kind = kind,
          .stage = chunk * shape.pipeline + place,
          .lane = step / group_steps * shape.pipeline + in_group % shape.pipeline};
}

// The number of forwards before the forward that the first backward belongs to.
std::int64_t warm_up(PipelineSchedule schedule, const PipelineShape& shape, int place) {
  const std::int64_t later = shape.pipeline - place - 1;
  switch (schedule) {
    case PipelineSchedule::kGpipe: return shape.lanes;
    case PipelineSchedule::kOneForwardOneBackward: return later;
    case PipelineSchedule::kInterleaved:
      // With one stage per place, running further ahead gains nothing and keeps more activations.
      return shape.chunks == 1 ? later : later * 2 + std::int64_t(shape.chunks - 1) * shape.pipeline;
  }
  return 0;
}

}  // namespace

std::string_view to_string(PipelineSchedule schedule) {
  for (const auto& [value, name] : kNames)
    if (value == schedule) return name;
  return "unknown";
}

PipelineSchedule parse_pipeline_schedule(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [value, its_name] : kNames) {
    if (its_name == name) return value;
    known.emplace_back(its_name);
  }
  const std::string near = nearest(name, known);
  const std::string hint = near.empty() ? "." : fmt::format("; did you mean '{}'?", near);
  throw Error(ErrorCode::kBadInput, fmt::format("no pipeline schedule is named '{}'{} Known: {}", name, hint,
                                                fmt::join(known, ", ")));
}

void require_schedulable(PipelineSchedule schedule, const PipelineShape& shape) {
  if (shape.pipeline < 1 || shape.chunks < 1 || shape.lanes < 1)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("a pipeline wants 1 or more places, chunks per place and lanes per replica; found "
                    "{}, {} and {}",
                    shape.pipeline, shape.chunks, shape.lanes));
  if (schedule != PipelineSchedule::kInterleaved && shape.chunks > 1)
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} wants 1 chunk per place, found {}; take 1, or the schedule interleaved",
                            to_string(schedule), shape.chunks));
  if (schedule != PipelineSchedule::kInterleaved || shape.lanes % shape.pipeline == 0) return;
  const std::int64_t below = shape.lanes / shape.pipeline * shape.pipeline;
  const std::int64_t above = below + shape.pipeline;
  throw Error(ErrorCode::kBadInput,
              fmt::format("interleaved wants a number of lanes per replica that is a multiple of "
                          "parallel.pipeline {}, found {}; take {}",
                          shape.pipeline, shape.lanes,
                          below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above)));
}

std::vector<PipelineAction> pipeline_actions(PipelineSchedule schedule, const PipelineShape& shape,
                                             int place) {
  require_schedulable(schedule, shape);
  DISTBELIEF_INVARIANT(place >= 0 && place < shape.pipeline);
  const std::int64_t all = shape.lanes * shape.chunks;
  const std::int64_t ahead = std::min(all, warm_up(schedule, shape, place));
  std::vector<PipelineAction> actions;
  actions.reserve(std::size_t(2 * all));
  for (std::int64_t step = 0; step < all + ahead; ++step) {
    if (step < all) actions.push_back(nth(Kind::kForward, shape, place, step));
    if (step >= ahead) actions.push_back(nth(Kind::kBackward, shape, place, step - ahead));
  }
  return actions;
}

int most_alive(std::span<const PipelineAction> actions, int stage) {
  int alive = 0;
  int most = 0;
  for (const PipelineAction& action : actions) {
    if (action.stage != stage) continue;
    alive += action.kind == Kind::kForward ? 1 : -1;
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace distbelief::mesh
