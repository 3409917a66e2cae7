#include "distbelief/modes/servers/paced_servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/vector.h"
#include "distbelief/compute/kernels.h"
#include "distbelief/run/saved_tables.h"

namespace distbelief::modes {
namespace {

constexpr std::int64_t kAllDone = -1, kBrokenOff = -2;  // instead of a step

}  // namespace

ModeParts PacedServers::parts(const ServerShareOptions& options) {
  const auto share = std::make_shared<ServerShare>(options);
  return {
      .terms = {.update = replica::ReplicaTerms::Update::kCollectGradient,
                .feed = replica::LaneFeedOptions::Order::kAnnounced,
                .rows = &share->rows()},
      .make = [share](replica::Replica& replica) { return std::make_unique<PacedServers>(replica, share); }};
}

PacedServers::PacedServers(replica::Replica& replica, std::shared_ptr<ServerShare> share)
    : Mode({.stages = replica.stages(), .outline = &replica.partition().outline(), .writes = share->leads()}),
      replica_(replica),
      share_(std::move(share)) {}

comm::SpaceSpec PacedServers::spec() const {
  const ParallelConfig& parallel = share_->parallel();
  comm::SpaceSpec spec = share_->spec(
      view_->layout(), replica_.partition().outline().buffers + mesh::kNoteFloats, replica_.task().tables());
  spec.mode = parallel.mode == "bounded" ? "bounded" : "async";
  spec.staleness = parallel.mode == "bounded" ? parallel.staleness : 0;
  spec.tickets = share_->ticket_of(steps_ + parallel.push_every - 1);
  return spec;
}

Reached PacedServers::join(const Entry& entry) {
  steps_ = entry.steps;
  const std::size_t elements = compute::Layout(replica_.partition().outline().parameters, 1).size();
  view_.emplace(replica_, replica::ReplicaViewOptions{.slices = slices_of(elements)});
  view_->put();
  // A run that goes on has its values from the leader alone.
  const bool brings_values = share_->leads() || share_->first_step() == 0;
  const auto join_here = [&] {
    share_->join(spec(), brings_values ? view_->parameters().data() : nullptr);
    await_warm_start();
    share_->fetch(share_->own_of(view_->parameters()));
  };
  if (view_->is_first()) join_here();
  view_->meet();  // the job is there, for the others to join
  if (!view_->is_first()) join_here();
  view_->meet();
  if (view_->is_first()) {
    tickets_.emplace(TicketQueueOptions{.client = &share_->client(),
                                        .first_step = share_->first_step(),
                                        .steps_each = share_->parallel().push_every,
                                        .steps = steps_});
    tickets_->begin();
    if (share_->first_step() > 0) share_->share_statistics(view_->mean());
  }
  view_->meet();
  view_->take();
  bring_rows(entry);
  if (share_->first_step() > 0) view_->take_statistics();
  return {.step = entry.step};
}

// The first replica begins alone, so that the others do not add to each other's large first steps (Dean et
// al., 2012).
void PacedServers::await_warm_start() {
  const ParallelConfig& parallel = share_->parallel();
  if (parallel.warm_start == 0 || share_->leads() || !view_->is_first()) return;
  const std::int64_t last = std::min(parallel.warm_start, steps_);
  if (last <= share_->first_step()) return;
  try {
    share_->client().await_done(share_->ticket_of(last + parallel.push_every - 1));
  } catch (const Error&) {
    is_broken_off_ = share_->is_broken_off();
    if (!is_broken_off_) throw;
  }
}

// The leader opens the tables to all, with the rows of the checkpoint that the run goes on from. A leader
// that was lost while it did so begins again.
void PacedServers::bring_rows(const Entry& entry) {
  const std::vector<comm::TableSpec> tables = replica_.task().tables();
  if (tables.empty() || !view_->is_first() || !share_->leads()) return;
  tasks::RowLink& rows = share_->rows();
  if (rows.list(0, {}).is_open) return;
  const auto folder = run::find_tables(entry.run_dir, entry.checkpoint);
  if (!folder && entry.checkpoint)
    throw Error(ErrorCode::kBadInput, fmt::format("{} has no rows of step {}, the step of the checkpoint",
                                                  (entry.run_dir / "tables").string(), *entry.checkpoint));
  if (folder) run::load_tables(rows, tables, *folder);
  for (int table = 0; table < int(tables.size()); ++table) rows.open(table);
}

// Before the checkpoint that they belong to.
void PacedServers::save(const Saving& saving) {
  const std::vector<comm::TableSpec> tables = replica_.task().tables();
  if (tables.empty() || !view_->is_first()) return;
  const std::vector<tasks::RowLink::Counts> counts =
      run::save_tables(share_->rows(), tables, saving.run_dir, saving.step, saving.keep + 1);
  for (std::size_t table = 0; table < tables.size(); ++table)
    saving.note("rows saved", {{"table", tables[table].name},
                               {"rows", counts[table].rows},
                               {"gone", counts[table].gone},
                               {"step", saving.step}});
}

// The replica's next step, or why there is none, and the steps that have become known.
std::int64_t PacedServers::take_step(std::vector<std::int64_t>& announced, bool& is_stale) try {
  if (is_broken_off_) return kBrokenOff;
  const std::optional<std::int64_t> step = tickets_->take([&](std::int64_t known) {
    announced.push_back(known);
    replica_.feed().announce(known);
  });
  if (!step) return kAllDone;
  if (share_->parallel().mode == "bounded")
    is_stale = share_->client().begin_step(share_->ticket_of(*step), tickets_->take_done());
  return *step;
} catch (const Error&) {
  is_broken_off_ = share_->is_broken_off();
  if (!is_broken_off_) throw;
  return kBrokenOff;
}

// The first worker asks for all, however long the servers take.
Work PacedServers::next() {
  std::vector<std::int64_t> announced;
  bool is_stale = false;
  const std::int64_t own = view_->is_first() ? take_step(announced, is_stale) : kAllDone;
  std::vector<std::int64_t> told{own, is_stale ? 1 : 0};
  told.insert(told.end(), announced.begin(), announced.end());
  view_->from_first(told);
  for (std::size_t i = 2; !view_->is_first() && i < told.size(); ++i) replica_.feed().announce(told[i]);
  if (told[0] == kBrokenOff) return {.kind = Work::Kind::kBrokenOff};
  if (told[0] == kAllDone) return {.kind = Work::Kind::kDone};
  if (told[1] != 0) catch_up();
  return {.at = {.step = told[0], .closes_epochs = share_->leads()}, .continues = continues_};
}

Settled PacedServers::settle(const mesh::StepPlan& plan, const mesh::StepOutcome& own) {
  report::PhaseClock& clock = replica_.team().clock();
  clock.start(report::Phase::kExchange);
  view_->collect();
  exchange(plan);
  share_->tell_answers(view_->answers());
  view_->meet();  // the parameters are there, however long the servers took
  if (const auto ticket = std::exchange(pushed_, {}); ticket && view_->is_first()) {
    // Until all slices have the ticket it would be dealt again.
    share_->log_answers(*ticket, view_->answers());
    tickets_->finish(*ticket);
  }
  view_->take();
  replica_.share_changed();
  clock.start(report::Phase::kOther);
  continues_ = mesh::size_of(plan).samples == replica_.job().config.train.batch_size;
  return {.reached = {.step = plan.step + 1}, .loss = own.loss, .agreed = own};
}

// Pushes every few steps what was accrued, fetches every few, and in between the replica goes on with its own
// steps.
void PacedServers::exchange(const mesh::StepPlan& plan) {
  const ParallelConfig& parallel = share_->parallel();
  const compute::Span own = share_->own();
  const std::vector<std::int32_t> untouched = view_->forget_untouched(own);
  const std::span<const float> gradient = view_->gradient().subspan(own.begin, own.size());
  const std::span<float> parameters = share_->own_of(view_->parameters());
  const bool pushes = (plan.step + 1) % parallel.push_every == 0 || plan.step + 1 == steps_;
  const bool fetches = ++since_fetch_ >= parallel.fetch_every;
  if (parallel.push_every > 1) {
    if (!missing_)
      accrued_.assign(gradient.begin(), gradient.end());
    else
      add(accrued_.data(), accrued_.data(), gradient.data(), gradient.size());
    if (!missing_) missing_ = untouched;
    std::erase_if(*missing_, [&](std::int32_t parameter) {
      return std::ranges::find(untouched, parameter) == untouched.end();
    });
  }
  if (pushes) {
    pushed_ = share_->ticket_of(plan.step);
    share_->client().push_pull(
        {.ticket = *pushed_, .lr = plan.lr, .untouched = missing_ ? *std::exchange(missing_, {}) : untouched},
        parallel.push_every > 1 ? std::span<const float>(accrued_) : gradient,
        fetches ? parameters : std::span<float>());
  } else if (fetches) {
    share_->fetch(parameters);
  }
  if (fetches) since_fetch_ = 0;
  if (!fetches)
    compute::sgd_plain(parameters.data(), gradient.data(), {.lr = float(plan.lr)}, parameters.size());
}

// Others went on since the last fetch.
void PacedServers::catch_up() {
  share_->fetch(share_->own_of(view_->parameters()));
  since_fetch_ = 0;
  missing_.reset();
  view_->meet();
  view_->take();
  replica_.share_changed();
}

// Others go on meanwhile, with the steps that this replica has not begun.
void PacedServers::pause(const std::function<void()>& wait) {
  std::vector<std::int64_t> dropped{view_->is_first() ? tickets_->rest() : 0};
  missing_.reset();
  view_->from_first(dropped);
  replica_.feed().skip(dropped[0]);
  wait();
  catch_up();
  if (view_->is_first()) tickets_->begin();
}

Finished PacedServers::finish() {
  share_->client().pull(share_->own_of(view_->parameters()));
  view_->meet();
  view_->take();
  return {.reached = Reached{.step = steps_, .closes_epochs = share_->leads(), .of_all = true, .ends = true}};
}

}  // namespace distbelief::modes
