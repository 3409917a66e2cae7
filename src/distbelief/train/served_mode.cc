#include "distbelief/train/served_mode.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/train/saved_tables.h"

namespace distbelief::train {
namespace {

constexpr std::int64_t kAllDone = -1, kBrokenOff = -2;  // instead of a step

}  // namespace

ReplicaTerms ServedMode::terms_of(ParameterLink& link) {
  ReplicaTerms terms{.update = ReplicaTerms::Update::kCollectGradient, .rows = link.rows()};
  if (link.is_synchronous())
    terms.lanes = link.lanes();
  else
    terms.feed = LaneFeedOptions::Order::kAnnounced;
  return terms;
}

ServedMode::ServedMode(Replica& replica, std::shared_ptr<ParameterLink> link)
    : Mode({.stages = replica.stages(), .outline = &replica.partition().outline(), .writes = link->leads()}),
      replica_(replica),
      link_(std::move(link)) {
  hold_whole();
}

ServedMode::~ServedMode() = default;

// A second copy of the parameters, which servers fill when it is to be validated or saved.
void ServedMode::hold_whole() {
  const int sub_network = replica_.terms().sub_network;
  if (sub_network < 0) return;
  const PreparedJob& job = replica_.job();
  const model::BlockRange blocks = replica_.stages()[0].outline->blocks;
  spdlog::info("sub-network {} of {}: blocks {} to {}, {} parameters", sub_network, job.sub_networks.size(),
               blocks.begin, blocks.end - 1, replica_.group().layout().parameter_count());
  if (!link_->leads()) return;
  whole_outline_ = outline_of(*job.network);
  whole_.push_back(make_stage(0, whole_outline_.stages[0], job.network, nullptr));
  Stage& whole = whole_[0];
  whole.group = std::make_unique<strategy::AllreduceGroup>(whole_world_.emplace(replica_.world().split(0)),
                                                           whole.parameters, replica_.group_settings(whole));
  compute::copy_parameters(*whole.network, whole.group->layout(), whole.group->parameters());
  compute::Replica(whole.network, whole.group->layout(), whole.group->parameters());  // they lie there now
  whole_statistics_.resize(whole_outline_.buffers);
  set_record({.stages = whole_, .outline = &whole_outline_, .is_apart = true, .writes = true});
}

// A checkpoint has the whole model; the sub-network's parameters lie at its beginning, because the leader
// trains the first blocks.
void ServedMode::take_own_part() {
  if (whole_.empty()) return;
  const std::size_t last = replica_.stages()[0].parameters.size() - 1;
  std::memcpy(replica_.group().parameters(),
              whole_[0].group->parameters() + whole_[0].group->layout().entries()[last].offset,
              replica_.group().layout().size() * sizeof(float));
}

Reached ServedMode::join(const Entry& entry) {
  steps_ = entry.steps;
  steps_per_epoch_ = entry.steps_per_epoch;
  step_ = entry.step;
  if (entry.checkpoint) take_own_part();
  served_.emplace(ServedReplica::Options{.stages = replica_.stages(),
                                         .outline = &replica_.partition().outline(),
                                         .world = &replica_.world(),
                                         .peers = &replica_.partition().peers(),
                                         .link = link_.get()});
  ParameterLink::Start start{.steps = entry.steps,
                             .steps_per_epoch = entry.steps_per_epoch,
                             .step = entry.step,
                             .samples = entry.samples,
                             .tables = replica_.task().tables()};
  if (!whole_.empty()) {
    compute::BufferSet(*whole_[0].network).read(whole_statistics_);
    start.whole = std::span(whole_[0].group->parameters(), whole_[0].group->layout().size());
    start.whole_statistics = whole_statistics_;
  }
  const std::int64_t step = served_->join(start);
  bring_rows(entry);
  if (replica_.terms().sub_network >= 0 || step != 0) read_statistics();
  if (step == 0 || !link_->is_synchronous()) return {.step = entry.step};
  spdlog::info("the servers are at step {}", step);
  step_ = step;
  return {.step = step, .of_all = true};
}

void ServedMode::read_statistics() {
  replica_.set_statistics(
      [this](std::size_t stage, compute::BufferSet& buffers) { served_->read_mean(stage, buffers); });
}

// The leader opens the tables to all, with the rows of the checkpoint that the run goes on from. A leader
// that was lost while it did so begins again.
void ServedMode::bring_rows(const Entry& entry) {
  const std::vector<comm::TableSpec> tables = replica_.task().tables();
  if (tables.empty() || !is_first() || !link_->leads()) return;
  RowLink& rows = *link_->rows();
  if (rows.list(0, {}).is_open) return;
  const auto folder = find_tables(entry.run_dir, entry.checkpoint);
  if (!folder && entry.checkpoint)
    throw Error(ErrorCode::kBadInput, fmt::format("{} has no rows of step {}, the step of the checkpoint",
                                                  (entry.run_dir / "tables").string(), *entry.checkpoint));
  if (folder) load_tables(rows, tables, *folder);
  for (int table = 0; table < int(tables.size()); ++table) rows.open(table);
}

// Before the checkpoint that they belong to.
void ServedMode::save(const Saving& saving) {
  const std::vector<comm::TableSpec> tables = replica_.task().tables();
  if (tables.empty() || !is_first()) return;
  const std::vector<RowLink::Counts> counts =
      save_tables(*link_->rows(), tables, saving.run_dir, saving.step, saving.keep + 1);
  for (std::size_t table = 0; table < tables.size(); ++table)
    saving.note("rows saved", {{"table", tables[table].name},
                               {"rows", counts[table].rows},
                               {"gone", counts[table].gone},
                               {"step", saving.step}});
}

// The replica's next step, or why there is none, whether it has to fetch before, then the steps that come
// after it as far as they are known. The first worker asks for all, however long the servers take; in a
// search each has a link, and they agree there.
std::vector<std::int64_t> ServedMode::deal_steps() {
  std::vector<std::int64_t> steps{kAllDone, 0};
  const bool is_searching = link_->is_searching();
  if (is_first() || is_searching)
    steps[0] = link_
                   ->next([&](std::int64_t announced) {
                     steps.push_back(announced);
                     replica_.feed().announce(announced);
                   })
                   .value_or(link_->is_cut_short() ? kBrokenOff : kAllDone);
  steps[1] = link_->is_stale() ? 1 : 0;
  World& world = replica_.world();
  if (world.size() == 1 || is_searching) return steps;
  served_->meet();
  auto count = std::int64_t(steps.size());
  world.communicator().broadcast(comm::view(&count, 1), 0);
  steps.resize(std::size_t(count));
  world.communicator().broadcast(comm::view(steps.data(), steps.size()), 0);
  for (std::size_t i = 2; !is_first() && i < steps.size(); ++i) replica_.feed().announce(steps[i]);
  return steps;
}

Work ServedMode::next() {
  if (link_->is_synchronous())
    return {.kind = step_ < steps_ ? Work::Kind::kStep : Work::Kind::kDone,
            .at = {.step = step_},
            .continues = step_ % steps_per_epoch_ != 0};
  const std::vector<std::int64_t> dealt = deal_steps();
  if (dealt[0] == kBrokenOff) return {.kind = Work::Kind::kBrokenOff};
  if (dealt[0] < 0) return {.kind = Work::Kind::kDone};
  if (dealt[1] != 0) {
    served_->refresh();
    replica_.share_changed();
  }
  return {.at = {.step = dealt[0], .closes_epochs = link_->leads()}, .continues = continues_};
}

Settled ServedMode::settle(const strategy::StepPlan& plan, const StepOutcome& own) {
  report::PhaseClock& clock = replica_.team().clock();
  clock.start(report::Phase::kExchange);
  served_->end_step(plan);
  Settled settled{.reached = {.step = plan.step + 1}, .loss = own.loss, .agreed = own};
  if (link_->is_synchronous()) {
    read_statistics();
    settled.agreed = outcome_of(served_->mean_notes(), size_of(plan).filled_lanes);
    settled.loss = settled.agreed->loss;
    step_ = served_->next_step();
    settled.reached = {.step = step_, .closes_epochs = true, .of_all = step_ > plan.step + 1};
    pass_over(plan.step + 1, step_);
  }
  replica_.share_changed();
  clock.start(report::Phase::kOther);
  continues_ = size_of(plan).samples == replica_.job().config.train.batch_size;
  // A search tries points where the loss need not be a number.
  if (link_->is_searching() && !std::isfinite(own.loss)) settled.loss.reset();
  return settled;
}

// The others have not waited for this replica (parallel.spare_replicas): it goes on where they are.
void ServedMode::pass_over(std::int64_t after, std::int64_t next) {
  const std::int64_t steps = next - after;
  if (steps <= 0) return;
  replica_.feed().skip(steps);
  const std::int64_t before = std::exchange(passed_over_, passed_over_ + steps);
  if (std::bit_width(std::uint64_t(before)) == std::bit_width(std::uint64_t(passed_over_))) return;
  spdlog::info("this replica came too late for {} steps so far, and goes on at step {}", passed_over_, next);
}

// Others go on without this replica, with the steps that it has not begun. Says whether they do.
bool ServedMode::rest() {
  if (link_->is_synchronous()) return false;
  std::int64_t dropped = is_first() ? link_->rest().value_or(-1) : 0;
  if (replica_.world().size() > 1) {
    served_->meet();
    replica_.world().communicator().broadcast(comm::view(&dropped, 1), 0);
  }
  if (dropped < 0) return false;
  replica_.feed().skip(dropped);
  return true;
}

void ServedMode::pause(const std::function<void()>& wait) {
  const bool rests = rest();
  wait();
  if (!rests) return;
  served_->refresh();
  replica_.share_changed();
  if (is_first()) link_->wake();
}

void ServedMode::refresh() {
  if (whole_.empty()) return;
  link_->fetch_whole();
  compute::BufferSet(*whole_[0].network).write(whole_statistics_);
}

Finished ServedMode::finish() {
  if (link_->is_synchronous()) return {};
  const ParameterLink::Finished finished = served_->finish();
  return {.reached = Reached{.step = finished.steps.value_or(steps_),
                             .closes_epochs = link_->leads(),
                             .of_all = true,
                             .ends = true},
          .loss = finished.loss};
}

}  // namespace distbelief::train
