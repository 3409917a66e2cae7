#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/run/saved_tables.h"
#include "distbelief/train/trainer.h"

// A replica whose parameters live on servers: the part of Trainer that gets its steps from there.
namespace distbelief::train {
namespace {

constexpr std::int64_t kAllDone = -1, kBrokenOff = -2;  // instead of a step

}  // namespace

// What the servers have takes the place of what this replica would begin with.
void Trainer::join_servers() {
  served_ = std::make_unique<mesh::ServedReplica>(mesh::ServedReplica::Options{
      .stages = stages_, .outline = &outline_, .world = &world_, .peers = &peers(), .link = options_.link});
  if (!whole_.empty()) {
    whole_statistics_.resize(whole_outline_.buffers);
    compute::BufferSet(*whole_[0].network).read(whole_statistics_);
  }
  const std::int64_t step = served_->join(
      {.steps = job_.total_steps(),
       .steps_per_epoch = job_.steps_per_epoch(),
       .step = progress_.step,
       .samples = std::int64_t(plan_.samples),
       .whole = whole_.empty() ? std::span<float>()
                               : std::span(whole_[0].group->parameters(), whole_[0].group->layout().size()),
       .whole_statistics = whole_statistics_,
       .tables = task_->tables()});
  if (options_.sub_network >= 0) read_statistics();
  bring_rows();
  if (step == 0) return;
  read_statistics();
  if (!options_.link->is_synchronous()) {
    validated_epoch_ = progress_.epoch;
    return;
  }
  follow(step);
  progress_.samples = samples_before(step);
  spdlog::info("the servers are at step {}", step);
}

void Trainer::read_statistics() {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    compute::BufferSet buffers(*stages_[i].network);
    served_->read_mean(i, buffers);
  }
}

// Of all replicas.
std::int64_t Trainer::samples_before(std::int64_t step) const {
  return std::int64_t(plan_.samples) * (step / job_.steps_per_epoch()) +
         std::int64_t(plan_.step_range(0).size()) * (step % job_.steps_per_epoch());
}

void Trainer::follow(std::int64_t step) {
  progress_.step = step;
  progress_.epoch = step / job_.steps_per_epoch();
  progress_.step_in_epoch = step % job_.steps_per_epoch();
}

// The others have not waited for this replica (parallel.spare_replicas): it goes on where they are.
void Trainer::pass_over(std::int64_t next) {
  const std::int64_t steps = next - progress_.step;
  if (steps <= 0) return;
  for (const auto& loader : loaders_) loader->skip(std::uint64_t(steps));
  follow(next);
  progress_.samples = samples_before(next);
  const std::int64_t before = std::exchange(passed_over_, passed_over_ + steps);
  if (std::bit_width(std::uint64_t(before)) == std::bit_width(std::uint64_t(passed_over_))) return;
  spdlog::info("this replica came too late for {} steps so far, and goes on at step {}", passed_over_, next);
}

// The replica's next step, or why there is none, whether it has to fetch before, then the steps that come
// after it as far as they are known. The first worker asks for all, however long the servers take; in a
// search each has a link, and they agree there.
std::vector<std::int64_t> Trainer::deal_steps() {
  std::vector<std::int64_t> steps{kAllDone, 0};
  const auto announce = [this](std::int64_t step) {
    for (const auto& loader : loaders_) loader->announce(std::uint64_t(step));
  };
  const bool is_searching = options_.link->is_searching();
  if (is_root() || is_searching)
    steps[0] = options_.link
                   ->next([&](std::int64_t announced) {
                     steps.push_back(announced);
                     announce(announced);
                   })
                   .value_or(options_.link->is_cut_short() ? kBrokenOff : kAllDone);
  steps[1] = options_.link->is_stale() ? 1 : 0;
  if (world_.size() == 1 || is_searching) return steps;
  served_->meet();
  auto count = std::int64_t(steps.size());
  world_.communicator().broadcast(comm::view(&count, 1), 0);
  steps.resize(std::size_t(count));
  world_.communicator().broadcast(comm::view(steps.data(), steps.size()), 0);
  if (!is_root()) std::for_each(steps.begin() + 2, steps.end(), announce);
  return steps;
}

void Trainer::require_servers_for_tables() const {
  if (task_->tables().empty() || (options_.link && options_.link->rows() != nullptr)) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("the rows of model {} lie on parameter servers: set parallel.sync = "
                          "\"parameter_server\" and parallel.mode = \"async\"",
                          job_.config.model.name));
}

// The leader opens the tables to all, with the rows of the checkpoint that the run goes on from. One that was
// lost while it did so begins again.
void Trainer::bring_rows() {
  const std::vector<comm::TableSpec> tables = task_->tables();
  if (tables.empty() || !is_root() || !leads()) return;
  tasks::RowLink& rows = *options_.link->rows();
  if (rows.list(0, {}).is_open) return;
  const auto step = last_saved_step_ >= 0 ? std::optional(last_saved_step_) : std::nullopt;
  const auto folder = run::find_tables(options_.run_dir, step);
  if (!folder && step)
    throw Error(ErrorCode::kBadInput, fmt::format("{} has no rows of step {}, which the checkpoint is of",
                                                  (options_.run_dir / "tables").string(), *step));
  if (folder) run::load_tables(rows, tables, *folder);
  for (int table = 0; table < int(tables.size()); ++table) rows.open(table);
}

// Before the checkpoint that they belong to.
void Trainer::save_rows() {
  const std::vector<comm::TableSpec> tables = task_->tables();
  if (tables.empty() || !is_root()) return;
  const std::vector<tasks::RowLink::Counts> counts =
      run::save_tables(*options_.link->rows(), tables, options_.run_dir, progress_.step,
                       std::size_t(job_.config.checkpoint.keep) + 1);
  for (std::size_t table = 0; table < tables.size(); ++table)
    recorder_->event("rows saved", {{"table", tables[table].name},
                                    {"rows", counts[table].rows},
                                    {"gone", counts[table].gone},
                                    {"step", progress_.step}});
}

bool Trainer::has_next_step() {
  if (!takes_own_steps()) return progress_.step < job_.total_steps();
  const std::vector<std::int64_t> dealt = deal_steps();
  const std::int64_t step = dealt[0];
  is_cut_short_ = step == kBrokenOff;
  if (step < 0) return false;
  if (dealt[1] != 0) served_->refresh();
  follow(step);
  if (leads() && progress_.epoch > validated_epoch_) {
    validated_epoch_ = progress_.epoch;
    end_epoch();
  }
  return true;
}

// Others go on without it, with what it has not begun. Collective; gives whether they do.
bool Trainer::rest() {
  if (!takes_own_steps()) return false;
  std::int64_t dropped = is_root() ? options_.link->rest().value_or(-1) : 0;
  if (world_.size() > 1) {
    served_->meet();
    world_.communicator().broadcast(comm::view(&dropped, 1), 0);
  }
  if (dropped < 0) return false;
  for (const auto& loader : loaders_) loader->skip(std::uint64_t(dropped));
  return true;
}

void Trainer::wake() {
  served_->refresh();
  if (is_root()) options_.link->wake();
}

// All work is done, by all replicas.
void Trainer::finish_served(std::int64_t total) {
  const mesh::ParameterLink::Finished finished = served_->finish();
  total = finished.steps.value_or(total);
  progress_.last_loss = finished.loss.value_or(progress_.last_loss);
  progress_.step = total;
  progress_.epoch = (total + job_.steps_per_epoch() - 1) / job_.steps_per_epoch();
  progress_.step_in_epoch = total % job_.steps_per_epoch();
  progress_.samples = samples_before(total);
  all_steps_done_ = true;
  last_saved_step_ = -1;  // what was saved at this step was so before others had done theirs
  if (leads()) end_epoch();
}

}  // namespace distbelief::train
