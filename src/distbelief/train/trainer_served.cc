#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "distbelief/base/error.h"
#include "distbelief/train/saved_tables.h"
#include "distbelief/train/trainer.h"

// A replica whose parameters live on servers: the part of Trainer that gets its steps from there.
namespace distbelief::train {

// What the servers have takes the place of what this replica would begin with.
void Trainer::join_servers() {
  strategy::AllreduceGroup& group = this->group();
  const std::size_t values = stages_[0].outline->buffers + kNoteFloats;
  served_ = std::make_unique<ServedSharing>(ServedSharing::Options{
      .group = &group, .world = &world_, .link = options_.link, .lane_values = values});
  if (world_.rank() != 0) return group.barrier();
  compute::BufferSet buffers(*stages_[0].network);
  std::vector<float> mean(values);
  buffers.read(std::span(mean).first(buffers.size()));
  const std::int64_t step = options_.link->join({.layout = &group.layout(),
                                                 .steps = job_.total_steps(),
                                                 .parameters = {group.parameters(), group.layout().size()},
                                                 .lane_values = mean,
                                                 .tables = task_->tables()});
  bring_rows();
  group.barrier();
  if (!options_.link->is_synchronous() || step == 0) return;
  buffers.write(std::span(mean).first(buffers.size()));
  progress_.step = step;
  progress_.epoch = step / job_.steps_per_epoch();
  progress_.step_in_epoch = step % job_.steps_per_epoch();
  spdlog::info("the servers are at step {}", step);
}

void Trainer::require_servers_for_tables() const {
  if (options_.link || task_->tables().empty()) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("the rows of model {} lie on parameter servers: set parallel.sync = "
                          "\"parameter_server\" and parallel.mode = \"async\"",
                          job_.config.model.name));
}

// The leader opens the tables to all, with the rows of the checkpoint that the run goes on from. One that was
// lost while it did so begins again.
void Trainer::bring_rows() {
  const std::vector<comm::TableSpec> tables = task_->tables();
  RowLink& rows = options_.link->rows();
  if (tables.empty() || !leads() || rows.list(0, {}).is_open) return;
  const auto step = last_saved_step_ >= 0 ? std::optional(last_saved_step_) : std::nullopt;
  const auto folder = find_tables(options_.run_dir, step);
  if (!folder && step)
    throw Error(ErrorCode::kBadInput, fmt::format("{} has no rows of step {}, which the checkpoint is of",
                                                  (options_.run_dir / "tables").string(), *step));
  if (folder) load_tables(rows, tables, *folder);
  for (int table = 0; table < int(tables.size()); ++table) rows.open(table);
}

// Before the checkpoint that they belong to.
void Trainer::save_rows() {
  const std::vector<comm::TableSpec> tables = task_->tables();
  if (tables.empty() || !is_root()) return;
  const std::vector<RowLink::Counts> counts =
      save_tables(options_.link->rows(), tables, options_.run_dir, progress_.step,
                  std::size_t(job_.config.checkpoint.keep) + 1);
  for (std::size_t table = 0; table < tables.size(); ++table)
    recorder_->event("rows saved", {{"table", tables[table].name},
                                    {"rows", counts[table].rows},
                                    {"gone", counts[table].gone},
                                    {"step", progress_.step}});
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
  options_.link->finish({group().parameters(), group().layout().size()});
  progress_.step = total;
  progress_.epoch = (total + job_.steps_per_epoch() - 1) / job_.steps_per_epoch();
  progress_.step_in_epoch = total % job_.steps_per_epoch();
  progress_.samples = std::int64_t(plan_.samples) * (total / job_.steps_per_epoch()) +
                      std::int64_t(plan_.step_range(0).size()) * progress_.step_in_epoch;
  if (leads()) end_epoch();
}

}  // namespace distbelief::train
