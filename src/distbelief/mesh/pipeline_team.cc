#include "distbelief/mesh/pipeline_team.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>

#include "distbelief/base/error.h"
#include "distbelief/mesh/lane_gather.h"
#include "distbelief/model/device.h"
#include "distbelief/model/tensor_type.h"

namespace distbelief::mesh {

using report::Phase;
using Clock = std::chrono::steady_clock;

// A worker's state for one of its stages.
struct PipelineTeam::Part {
  Part(Stage& of, StageStreams ways, std::int64_t lanes)
      : stage(of),
        streams(std::move(ways)),
        gather(make_gather(*of.group, *of.network, 0)),
        replica(of.network, of.group->layout(), gather ? gather->arena() : of.group->parameters()),
        buffers(*of.network),
        step_buffers(buffers.size()),
        flights(std::size_t(lanes)) {}

  Stage& stage;
  void begin(Pass pass) {
    if (gather) gather->begin(pass);
  }
  void finish_pass() {
    if (gather) gather->finish();
  }

  StageStreams streams;
  std::unique_ptr<LaneGather> gather;  // null: parameters are always in memory
  compute::Replica replica;
  compute::BufferSet buffers;
  std::vector<float> step_buffers;  // buffers at the start of every lane
  std::vector<Flight> flights;      // per lane of this copy
  torch::Tensor tied;               // the weight shared with another stage; undefined: none
  int tied_parameter = -1;          // its index in the stage that updates it
  std::vector<float> tied_gradient;
};

struct PipelineTeam::Step {
  const StepPlan& plan;
  const LaneNotes& wishes;
  double items = 0;
};

namespace {

void send(comm::StreamSender& stream, const torch::Tensor& tensor, std::int64_t tag) {
  const torch::Tensor values = model::on_host(tensor.detach());
  stream.send(
      {.tag = tag, .type = model::element_type(values, "an activation"), .shape = values.sizes().vec()},
      model::host_bytes(values).data());
}

// Returns a tensor in host memory.
torch::Tensor receive(comm::StreamReceiver& stream, std::int64_t tag) {
  const comm::ArrayHead head = stream.next();
  DISTBELIEF_INVARIANT(head.tag == tag);  // both ends follow one schedule
  torch::Tensor tensor = torch::empty(head.shape, model::torch_type(head.type));
  stream.receive(model::host_bytes(tensor).data());
  return tensor;
}

// The stage that updates a tied weight and the stage that also reads it.
struct Tie {
  int owner = -1;
  int guest = -1;
  std::string name;
  std::size_t bytes = 0;
};

Tie find_tie(const NetworkOutline& outline) {
  Tie tie;
  for (std::size_t guest = 0; guest < outline.stages.size(); ++guest)
    for (const std::string& name : outline.stages[guest].tied) {
      if (tie.guest >= 0)
        throw Error(ErrorCode::kBadInput,
                    fmt::format("'{}' and '{}' are both weights of several stages; one such is possible, cut "
                                "the network elsewhere or into fewer stages",
                                tie.name, name));
      for (std::size_t owner = 0; owner < guest; ++owner)
        for (const compute::Layout::Parameter& parameter : outline.stages[owner].parameters)
          if (parameter.name == name)
            tie = {int(owner), int(guest), name, std::size_t(element_count(parameter.shape)) * sizeof(float)};
    }
  return tie;
}

int index_of(const std::vector<compute::Layout::Parameter>& parameters, const std::string& name) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == name) return int(i);
  return -1;
}

}  // namespace

PipelineTeam::PipelineTeam(Options options)
    : options_(std::move(options)),
      place_(place_of(options_.mesh, options_.world->rank())),
      shape_{
          .pipeline = options_.mesh.pipeline, .chunks = options_.chunks, .lanes = std::ssize(options_.lanes)},
      actions_(pipeline_actions(options_.schedule, shape_, place_.pipeline)) {
  const Tie tie = find_tie(*options_.outline);
  ways_ = std::make_unique<StageWays>(*options_.world, StageWays::Options{.mesh = options_.mesh,
                                                                          .shape = shape_,
                                                                          .array_bytes = options_.array_bytes,
                                                                          .tied_owner = tie.owner,
                                                                          .tied_guest = tie.guest,
                                                                          .tied_bytes = tie.bytes});
  for (Stage& stage : options_.stages) {
    stage.group->gather_blocks(block_spans(*stage.network, stage.group->layout()),
                               passes_of(actions_, stage.index, way_back(stage)));
    parts_.push_back(std::make_unique<Part>(stage, ways_->streams_of(stage.index), shape_.lanes));
    Part& part = *parts_.back();
    if (stage.index != tie.owner && stage.index != tie.guest) continue;
    part.tied = stage.network->named_parameters()[tie.name];
    part.tied_parameter = index_of(stage.outline->parameters, tie.name);
  }
  share_changed();
}

PipelineTeam::~PipelineTeam() = default;

bool PipelineTeam::is_first(const Part& part) const { return part.stage.index == 0; }
bool PipelineTeam::is_last(const Part& part) const { return part.stage.index + 1 == shape_.stages(); }

compute::BufferSet& PipelineTeam::buffers(int stage, int thread) {
  DISTBELIEF_INVARIANT(thread == 0);
  return parts_[std::size_t(stage)]->buffers;
}

StepOutcome PipelineTeam::step(const StepPlan& plan, const LaneNotes& wishes) {
  const auto tell = [&](const char* reason) {
    for (const auto& part : parts_) part->stage.group->abort().set(options_.world->rank(), reason);
    options_.world->abort(reason);
  };
  try {
    run_step(plan, wishes);
  } catch (const Error& error) {
    // Streams know which worker is silent and in which operation, but not the step.
    const Error placed = error.at_step(plan.step);
    tell(placed.what());
    throw placed;
  } catch (const std::exception& error) {
    tell(error.what());
    throw;
  }
  return outcome_of(meet_notes(), size_of(plan).filled_lanes);
}

void PipelineTeam::run_step(const StepPlan& plan, const LaneNotes& wishes) {
  const Step step{plan, wishes, double(size_of(plan).samples * options_.task->items_per_sample())};
  for (const auto& part : parts_) {
    part->buffers.read(part->step_buffers);
    part->stage.group->sharing(0).begin_step(plan);
  }
  for (const PipelineAction& action : actions_) {
    Part& part = *parts_[std::size_t(action.stage / shape_.pipeline)];
    const std::int64_t lane = options_.lanes[std::size_t(action.lane)];
    Flight& flight = part.flights[std::size_t(action.lane)];
    if (action.kind == PipelineAction::Kind::kForward) {
      part.begin(Pass::kForward);
      forward(part, flight, lane, step);
      part.finish_pass();
    } else {
      backward(part, std::exchange(flight, {}), lane, step);
    }
  }
  finish();
}

void PipelineTeam::take_batch(Part& part, Flight& flight, std::uint64_t seed) {
  if (!is_first(part) && !is_last(part)) return;
  tasks::TensorBatch tensors = options_.next_batch();
  if (tensors.size == 0) return;
  tensors = tasks::prepared_for_lane(*options_.task, std::move(tensors), seed, part.stage.network->device());
  if (is_first(part)) flight.input = tensors.input.clone();
  if (is_last(part)) flight.target = tensors.target.clone();
}

void PipelineTeam::forward(Part& part, Flight& flight, std::int64_t lane, const Step& step) {
  clock_.start(Phase::kData);
  take_batch(part, flight, lane_seed(options_.seed, step.plan.step, lane));
  if (step.plan.lane_samples[std::size_t(lane)] == 0) return;
  if (!is_first(part)) {
    const auto begin = clock_.start(Phase::kExchange);
    flight.input = model::on_device(receive(*part.streams.activations_in, lane), part.stage.network->device())
                       .set_requires_grad(true);
    traced("wait: activations", part, lane, begin);
  }
  const auto begin = clock_.start(Phase::kForward);
  flight.values.resize(part.buffers.size() + kNoteFloats);
  LaneNotes notes = step.wishes;
  {
    // With recompute, backward starts from the input alone.
    const torch::AutoGradMode gradients(!options_.recompute || is_last(part));
    flight.output = run_blocks(part, flight, lane, step);
  }
  if (is_last(part)) notes.loss = float(flight.output.item<double>() / step.items);
  part.buffers.read(flight.values);
  std::memcpy(flight.values.data() + part.buffers.size(), &notes, sizeof(notes));
  traced("forward", part, lane, begin);
  if (is_last(part)) return;
  send(*part.streams.activations_out, flight.output, lane);
  if (options_.recompute) flight.output.reset();
}

// Leaves the lane's running statistics in the network's buffers.
torch::Tensor PipelineTeam::run_blocks(Part& part, Flight& flight, std::int64_t lane, const Step& step) {
  const LaneContext context(options_.seed, step.plan, lane);
  part.buffers.write(part.step_buffers);
  if (!is_last(part)) return part.stage.network->forward(flight.input);
  return options_.task->loss_sum(*part.stage.network,
                                 {flight.input, flight.target, step.plan.lane_samples[std::size_t(lane)]});
}

Pass PipelineTeam::way_back(const Stage& stage) const {
  const bool is_last_stage = stage.index + 1 == shape_.stages();
  return options_.recompute && !is_last_stage ? Pass::kThereAndBack : Pass::kBackward;
}

void PipelineTeam::backward(Part& part, Flight flight, std::int64_t lane, const Step& step) {
  AllreduceSharing& sharing = part.stage.group->sharing(0);
  sharing.begin_lane(lane);
  part.begin(way_back(part.stage));
  if (step.plan.lane_samples[std::size_t(lane)] == 0) {
    part.finish_pass();
    return sharing.end_lane();
  }
  std::memcpy(sharing.lane_buffers().data(), flight.values.data(), flight.values.size() * sizeof(float));
  torch::Tensor gradient;
  if (!is_last(part)) {
    const auto begin = clock_.start(Phase::kExchange);
    gradient = model::on_device(receive(*part.streams.gradients_in, lane), part.stage.network->device());
    traced("wait: gradients", part, lane, begin);
  }
  if (part.tied_parameter >= 0) {
    clock_.start(Phase::kExchange);
    const model::HostValues<float> other(receive(*part.streams.tied_in, lane));
    part.tied_gradient.assign(other.begin(), other.end());
  }
  const auto begin = clock_.start(Phase::kBackward);
  if (!flight.output.defined()) flight.output = run_blocks(part, flight, lane, step);
  if (!gradient.defined()) gradient = torch::full_like(flight.output, float(1.0 / step.items));
  bool in_backward = false;
  part.replica.backward(flight.output, gradient, [&](int parameter, const float* values) {
    if (parameter == part.tied_parameter) {
      for (std::size_t i = 0; i < part.tied_gradient.size(); ++i) part.tied_gradient[i] += values[i];
      values = part.tied_gradient.data();
    }
    sharing.gradient(parameter, values);
    if (options_.in_backward && !std::exchange(in_backward, true)) options_.in_backward();
  });
  part.finish_pass();
  if (!is_first(part)) send(*part.streams.gradients_out, flight.input.grad(), lane);
  if (part.tied.defined() && part.tied_parameter < 0) {
    send(*part.streams.tied_out, part.tied.grad(), lane);
    part.tied.mutable_grad().reset();
  }
  sharing.end_lane();
  clock_.start(Phase::kOther);
  traced("backward", part, lane, begin);
}

void PipelineTeam::finish() {
  clock_.start(Phase::kExchange);
  for (const auto& part : parts_) part->stage.group->sharing(0).sum_up();
  const double squared = options_.clip_norm > 0 ? squared_norm() : 0;
  for (const auto& part : parts_) {
    part->stage.group->sharing(0).finish_step(squared);
    part->buffers.write(part->stage.group->sharing(0).mean_buffers());
  }
  clock_.start(Phase::kOther);
}

// The squared norm of the whole network's gradient, summed parameter by parameter as in one process.
// Collective.
double PipelineTeam::squared_norm() {
  std::vector<double> norms(options_.outline->parameters.size());
  for (const auto& part : parts_)
    if (speaks_for_replicas()) {
      const std::span<const double> own = part->stage.group->sharing(0).squared_norms();
      for (std::size_t i = 0; i < own.size(); ++i)
        if (part->stage.speaks_for(i)) norms[part->stage.outline->first_parameter + i] = own[i];
    }
  options_.world->communicator().allreduce(comm::view(norms.data(), norms.size()), comm::ReduceOp::kSum);
  return std::accumulate(norms.begin(), norms.end(), 0.0);
}

// The current weight, gathered if its parts are spread.
torch::Tensor PipelineTeam::tied_weight(const Part& part) {
  if (!part.gather) return part.tied;
  AllreduceGroup& group = *part.stage.group;
  const compute::Entry& entry = group.layout().entries()[std::size_t(part.tied_parameter)];
  torch::Tensor whole = torch::empty(part.tied.sizes(), torch::kFloat32);
  group.read_everywhere({entry.offset, entry.offset + entry.count},
                        model::host_elements<float>(whole).data());
  return whole;
}

// Sends the new values of a tied weight to the stage that only reads it.
void PipelineTeam::share_changed() {
  constexpr std::int64_t kWeight = -1;
  const torch::NoGradGuard no_grad;
  clock_.start(Phase::kExchange);
  for (const auto& part : parts_)
    if (part->tied_parameter >= 0) send(*part->streams.tied_out, tied_weight(*part), kWeight);
  for (const auto& part : parts_)
    if (part->tied.defined() && part->tied_parameter < 0)
      part->tied.copy_(receive(*part->streams.tied_in, kWeight));
  clock_.start(Phase::kOther);
}

// Combines every worker's requests and the last stage's loss on all workers. Collective.
LaneNotes PipelineTeam::meet_notes() {
  std::vector<float> values(kNoteFloats);
  for (const auto& part : parts_) {
    if (!speaks_for_replicas() || (part != parts_.front() && !is_last(*part))) continue;
    const std::span<const float> mean = part->stage.group->sharing(0).mean_buffers();
    for (std::size_t i = 0; i < kNoteFloats; ++i) values[i] += mean[part->buffers.size() + i];
  }
  if (!part_of_group_leads())
    values[offsetof(LaneNotes, loss) / sizeof(float)] = 0;  // the leader of the tensor group reports it
  options_.world->communicator().allreduce(comm::view(values.data(), values.size()), comm::ReduceOp::kSum);
  LaneNotes notes;
  std::memcpy(static_cast<void*>(&notes), values.data(), sizeof(notes));
  return notes;
}

tasks::Evaluation PipelineTeam::evaluate(const tasks::ReadChunk& read, std::uint64_t samples) {
  std::map<std::uint64_t, tasks::Score> scores;  // by the chunk's first sample
  const tasks::EvaluationShare share{
      .task = options_.task, .samples = samples, .part = place_.data, .parts = options_.mesh.data};
  const std::uint64_t chunks = (samples + tasks::kEvaluationChunk - 1) / tasks::kEvaluationChunk;
  const auto parts = std::uint64_t(share.parts);
  for (const auto& part : parts_) {
    part->stage.network->eval();
    part->stage.group->begin_evaluation(std::int64_t((chunks + parts - 1) / parts));
  }
  for (auto chunk = std::uint64_t(share.part); chunk < chunks; chunk += parts) {
    const std::uint64_t begin = chunk * tasks::kEvaluationChunk;
    scores[begin] = score(read, {begin, std::min(samples, begin + tasks::kEvaluationChunk)});
  }
  // Ends before the workers communicate, because until then the exchange does.
  for (const auto& part : parts_) {
    part->stage.network->train();
    part->stage.group->end_evaluation();
  }
  return tasks::evaluate(share, options_.world->communicator(),
                         [&](data::Range range) { return scores.at(range.begin); });
}

tasks::Score PipelineTeam::score(const tasks::ReadChunk& read, data::Range range) {
  const torch::NoGradGuard no_grad;
  const model::SamplesInOrderScope in_order;
  const auto tag = std::int64_t(range.begin);
  tasks::Score score;
  for (const auto& part : parts_) {
    tasks::TensorBatch tensors;
    if (is_first(*part) || is_last(*part)) {
      tensors = tasks::prepared_for_test(*options_.task, tasks::as_tensors(read(range)),
                                         part->stage.network->device());
    }
    if (!is_first(*part))
      tensors.input =
          model::on_device(receive(*part->streams.activations_in, tag), part->stage.network->device());
    part->begin(Pass::kForward);
    torch::Tensor output;
    if (is_last(*part))
      score = options_.task->score(*part->stage.network, tensors);
    else
      output = part->stage.network->forward(tensors.input);
    part->finish_pass();
    if (is_last(*part) && !part_of_group_leads()) score = {};
    if (!is_last(*part)) send(*part->streams.activations_out, output, tag);
  }
  return score;
}

void PipelineTeam::traced(const char* name, const Part& part, std::int64_t lane, Clock::time_point begin) {
  if (options_.trace)
    options_.trace->span(fmt::format("{} {} stage {}", name, lane, part.stage.index), "pipeline", begin,
                         Clock::now(), 0);
}

}  // namespace distbelief::mesh
