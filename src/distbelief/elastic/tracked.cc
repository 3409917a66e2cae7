#include "distbelief/elastic/tracked.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>

#include <atomic>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/cluster/enrolment.h"
#include "distbelief/cluster/run_place.h"
#include "distbelief/elastic/boundary.h"
#include "distbelief/elastic/state_archive.h"
#include "distbelief/elastic/state_keeper.h"
#include "distbelief/process/attendance.h"
#include "distbelief/report/metrics.h"
#include "distbelief/report/run_log.h"
#include "distbelief/run/snapshotter.h"

namespace distbelief::elastic {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSnapshotShare = 0.01;  // share of the run time that snapshots may take
constexpr int kInterruptedCode = 130;

std::atomic<bool> leaving{false};  // a notice came; a signal handler can set only this

// Records SIGUSR1, by which a scheduler says that it wants the machine back, to tell the supervisor. The
// launcher sends the same signal when the supervisor ends. It then has no effect: an ending supervisor has
// ordered its workers to stop, and a dead one cannot be told.
void catch_notice() {
  struct sigaction action {};
  action.sa_handler = [](int) { leaving.store(true); };
  sigaction(SIGUSR1, &action, nullptr);
}

}  // namespace

struct Tracked::State {
  State(World& w, torch::nn::Module& m, std::unique_ptr<OptimizerState> o, EpochSampler& s,
        TrackedOptions chosen)
      : world(w),
        model(m),
        optimizer(std::move(o)),
        sampler(s),
        options(std::move(chosen)),
        enrolment(cluster::own_enrolment()) {}

  void begin();
  void await_turn();
  void restore();
  void advance(double loss);
  bool obey();
  Decision agree();
  Facts facts() const;
  void save(const Decision& decision);
  void note_saves();
  void finish();
  void end(const std::string& how);
  void event(const std::string& kind, nlohmann::json details) const;
  bool is_kept() const { return keeper->has_memory() || keeper->has_folder(); }

  World& world;
  torch::nn::Module& model;
  std::unique_ptr<OptimizerState> optimizer;
  EpochSampler& sampler;
  TrackedOptions options;
  std::optional<cluster::Enrolment> enrolment;
  Position position;
  int generation = 1;
  std::unique_ptr<StateKeeper> keeper;
  std::optional<Error> unsaved;  // why the last checkpoint failed
  std::int64_t until_decision = 1, since_decision = 0;
  Clock::time_point last_decision{}, last_step{}, last_snapshot{}, last_checkpoint{};
  std::chrono::nanoseconds snapshot_cost{};
  int exit_code = 0;
  bool ended = false;

  run::Vitals vitals;
  run::Orders orders;
  std::optional<process::Attendance> attendance;  // last: its thread uses the two above
};

void Tracked::State::begin() {
  if (enrolment) await_turn();
  keeper = std::make_unique<StateKeeper>(
      world, StateKeeper::Options{.memory = enrolment ? enrolment->snapshots : "",
                                  .folder = enrolment ? enrolment->run_dir / "checkpoints" : options.folder,
                                  .generation = generation});
  restore();
  last_decision = last_step = last_checkpoint = Clock::now();
  vitals.from_step = vitals.step = position.step;
  vitals.epoch = position.epoch;
  vitals.state = "training";
}

// Blocks until this worker's turn. Until then a signal ends this process, because there is nothing to save.
void Tracked::State::await_turn() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a worker does not outlive its launcher
  attendance.emplace(process::Attendance::Options{
      .address = {.target = enrolment->control},
      .cohort = enrolment->cohort,
      .rank = world.rank(),
      .vitals = &vitals,
      .orders = &orders,
      .leaving = &leaving,
      .log = report::open_log(enrolment->run_dir, fmt::format("worker-{}", world.rank()))});
  const std::atomic<bool> never{false};
  const auto turn = attendance->wait_for_turn(never);
  if (!turn) throw Error(ErrorCode::kAborted, "the supervisor has ended before this worker's turn came");
  generation = turn->generation;
  catch_notice();
}

void Tracked::State::restore() {
  if (!is_kept()) return;
  const std::optional<std::string> found = keeper->newest();
  if (found) position = read_state(*found, world, model, *optimizer);
  if (found) sampler.resume_at(position.epoch, std::size_t(position.batch));
  event(found ? "resumed" : "started",
        {{"generation", generation}, {"workers", world.size()}, {"step", position.step}});
}

void Tracked::State::event(const std::string& kind, nlohmann::json details) const {
  if (!enrolment || world.rank() != 0) return;
  try {
    report::MetricsLog(enrolment->run_dir / "events.jsonl")
        .append(report::event_line(kind, std::move(details)));
  } catch (const Error& error) {  // a full disk does not end a run
    fmt::print(stderr, "distbelief: {}\n", error.what());
  }
}

void Tracked::State::advance(double loss) {
  const std::int64_t samples = sampler.share(std::size_t(position.batch)).global_samples;
  ++position.step;
  ++since_decision;
  if (++position.batch == std::int64_t(sampler.steps_per_epoch())) {
    position.batch = 0;
    ++position.epoch;
  }
  if (!attendance) return;
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - std::exchange(last_step, now)).count();
  vitals.step = position.step;
  vitals.epoch = position.epoch;
  vitals.loss = loss;
  vitals.step_seconds = vitals.busy_seconds = seconds;
  vitals.samples_per_second = double(samples) / std::max(1e-9, seconds);
}

Facts Tracked::State::facts() const {
  const auto now = Clock::now();
  const auto every = options.checkpoint_every;
  return {.stop = orders.stop,
          .hand_over = orders.hand_over && keeper->has_memory(),
          .pause = orders.pause,
          .snapshot_due = keeper->has_memory() &&
                          now - last_snapshot >= run::snapshot_interval(snapshot_cost, kSnapshotShare),
          .checkpoint_due = keeper->has_folder() && every.count() > 0 && now - last_checkpoint >= every,
          .can_resume = sampler.can_resume_at(std::size_t(position.batch)),
          .step = (now - last_decision) / std::max<std::int64_t>(1, since_decision)};
}

Decision Tracked::State::agree() {
  DecisionWords words{};
  if (world.rank() == 0) words = to_words(decide(facts()));
  world.communicator().broadcast(comm::view(words.data(), words.size()), 0);
  return from_words(words);
}

bool Tracked::State::obey() {
  for (;;) {
    const Decision decision = agree();
    if (decision.saves()) save(decision);
    if (world.rank() == 0) note_saves();
    until_decision = decision.next;
    since_decision = 0;
    last_decision = Clock::now();
    vitals.state = decision.course == Course::kPause ? "paused" : "training";
    if (decision.course == Course::kGoOn) return true;
    if (decision.course == Course::kStop) end("interrupted");
    if (decision.course == Course::kHandOver) end("handed over");
    if (ended) return false;
    // Worker 0 paces the loop: the others wait for the next decision, which must come before their deadline.
    if (world.rank() == 0) std::this_thread::sleep_for(kDecisionInterval);
  }
}

// Workers do not wait for the writers: nothing shared changes before all workers have done another step.
void Tracked::State::save(const Decision& decision) {
  const auto begin = Clock::now();
  const torch::Tensor random = gather_random(world);
  optimizer->gather();
  const bool writes_memory = decision.snapshot && world.local_rank() == 0;
  const bool writes_folder = decision.checkpoint && world.rank() == 0;
  if (writes_memory || writes_folder) {
    std::string state = write_state(model, *optimizer, position, random);
    if (writes_folder) keeper->checkpoint(state, position.step);
    if (writes_memory) keeper->snapshot(std::move(state), position.step);
  }
  if (decision.checkpoint) last_checkpoint = Clock::now();
  if (!decision.snapshot) return;
  vitals.snapshot_step = position.step;
  // Ignores the first snapshot: it includes one-time costs and would put off the next one for long.
  const bool is_first = std::exchange(last_snapshot, Clock::now()) == Clock::time_point{};
  const std::chrono::nanoseconds took = last_snapshot - begin;
  if (!is_first) snapshot_cost = snapshot_cost.count() == 0 ? took : (snapshot_cost + took) / 2;
}

void Tracked::State::note_saves() {
  while (const std::optional<StateKeeper::Outcome> outcome = keeper->take_outcome()) {
    if (outcome->on_disk) vitals.checkpoint_step = outcome->step;
    unsaved = outcome->on_disk ? std::nullopt : outcome->failure;
    if (!unsaved) continue;
    fmt::print(stderr, "distbelief: no checkpoint at step {}: {}\n", outcome->step, unsaved->what());
    event("checkpoint failed", {{"reason", unsaved->what()}, {"step", outcome->step}});
  }
}

void Tracked::State::end(const std::string& how) {
  keeper->wait();
  if (world.rank() == 0) note_saves();
  if (how == "interrupted" && unsaved) throw Error(*unsaved);
  if (how == "handed over") world.communicator().barrier();  // all hosts have written
  exit_code = how == "interrupted" ? kInterruptedCode : 0;
  ended = true;
  if (!attendance) return;
  attendance->end(how);
  if (const cluster::RunPlace place = cluster::place_of(enrolment->run_dir);
      world.local_rank() == 0 && cluster::is_abandoned(place))
    cluster::clear_place(place);  // no other process will
}

// Also saves the final state, so that training can continue later.
void Tracked::State::finish() {
  if (keeper->has_folder() && sampler.can_resume_at(std::size_t(position.batch))) save({.checkpoint = true});
  end("done");
}

Tracked::Tracked(World& world, torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                 EpochSampler& sampler, TrackedOptions options)
    : state_(std::make_unique<State>(world, model, state_of(optimizer), sampler, std::move(options))) {
  state_->begin();
}

Tracked::Tracked(World& world, torch::nn::Module& model, DataParallel& parallel, EpochSampler& sampler,
                 TrackedOptions options)
    : state_(std::make_unique<State>(world, model, state_of(parallel), sampler, std::move(options))) {
  state_->begin();
}

Tracked::~Tracked() {
  if (state_->attendance && !state_->ended && std::uncaught_exceptions() == 0)
    state_->attendance->end("done");
}

std::int64_t Tracked::epoch() const { return state_->position.epoch; }
std::int64_t Tracked::step() const { return state_->position.step; }
BatchShare Tracked::share() const { return state_->sampler.share(std::size_t(state_->position.batch)); }

bool Tracked::commit(double loss) {
  if (state_->ended)
    throw Error(ErrorCode::kBadInput, "Tracked::commit was called after it gave false; leave() then");
  state_->advance(loss);
  if (!state_->is_kept() || --state_->until_decision > 0) return true;
  return state_->obey();
}

int Tracked::leave() {
  if (!state_->ended) state_->finish();
  state_->world.close();
  return state_->exit_code;
}

}  // namespace distbelief::elastic
