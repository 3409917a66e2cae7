#include <spdlog/spdlog.h>

#include "distbelief/train/trainer.h"

// A replica whose parameters live on servers: the part of Trainer that gets its steps from there.
namespace distbelief::train {

// What the servers have takes the place of what this replica would begin with.
void Trainer::join_servers() {
  strategy::AllreduceGroup& group = this->group();
  const std::size_t values = stages_[0].outline->buffers + kNoteFloats;
  served_ = std::make_unique<ServedSharing>(ServedSharing::Options{
      .group = &group, .world = &world_, .link = options_.link, .lane_values = values});
  if (world_.rank() != 0 && !options_.link->is_searching()) return group.barrier();
  compute::BufferSet buffers(*stages_[0].network);
  std::vector<float> mean(values);
  buffers.read(std::span(mean).first(buffers.size()));
  const std::int64_t step = options_.link->join({.layout = &group.layout(),
                                                 .steps = job_.total_steps(),
                                                 .steps_per_epoch = job_.steps_per_epoch(),
                                                 .step = progress_.step,
                                                 .samples = std::int64_t(plan_.samples),
                                                 .parameters = {group.parameters(), group.layout().size()},
                                                 .lane_values = mean});
  group.barrier();
  if (!options_.link->is_synchronous() || step == 0) return;
  buffers.write(std::span(mean).first(buffers.size()));
  progress_.step = step;
  progress_.epoch = step / job_.steps_per_epoch();
  progress_.step_in_epoch = step % job_.steps_per_epoch();
  spdlog::info("the servers are at step {}", step);
}

bool Trainer::has_next_step() {
  if (!takes_own_steps()) return progress_.step < job_.total_steps();
  const std::optional<std::int64_t> step = options_.link->next([this](std::int64_t announced) {
    for (const auto& loader : loaders_) loader->announce(std::uint64_t(announced));
  });
  if (!step) return false;
  progress_.step = *step;
  progress_.epoch = *step / job_.steps_per_epoch();
  progress_.step_in_epoch = *step % job_.steps_per_epoch();
  if (leads() && progress_.epoch > validated_epoch_) {
    validated_epoch_ = progress_.epoch;
    end_epoch();
  }
  return true;
}

// All work is done, by all replicas.
void Trainer::finish_served(std::int64_t total) {
  const ParameterLink::Finished finished =
      options_.link->finish({group().parameters(), group().layout().size()});
  total = finished.steps.value_or(total);
  progress_.last_loss = finished.loss.value_or(progress_.last_loss);
  group().barrier();  // the parameters are there
  progress_.step = total;
  progress_.epoch = (total + job_.steps_per_epoch() - 1) / job_.steps_per_epoch();
  progress_.step_in_epoch = total % job_.steps_per_epoch();
  progress_.samples = std::int64_t(plan_.samples) * (total / job_.steps_per_epoch()) +
                      std::int64_t(plan_.step_range(0).size()) * progress_.step_in_epoch;
  all_steps_done_ = true;
  if (leads()) end_epoch();
}

}  // namespace distbelief::train
