#include "distbelief/cluster/replica_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "distbelief/comm/rpc/store.h"

namespace distbelief::cluster {
namespace {

comm::WorkerOrder servers_order(const std::vector<std::string>& targets) {
  return {.kind = "servers", .value = 0, .text = nlohmann::json(targets).dump()};
}

}  // namespace

ReplicaSet::ReplicaSet(Options options, Dispatch& dispatch)
    : options_(std::move(options)),
      dispatch_(dispatch) {
  for (const ReplicaPlace& place : options_.places) replicas_.push_back({.place = place});
}

void ReplicaSet::hear(const comm::WorkerReport& report) {
  for (Replica& replica : replicas_)
    if (replica.cohort && replica.cohort->id() == report.generation) {
      const bool is_new = !replica.cohort->reports().contains(report.rank);
      replica.cohort->hear(report, Clock::now());
      if (is_new && is_ending(replica))
        order(replica, {.kind = "stop"});  // it was not connected when the others were told
      if (report.state == "ended") replica.cohort->part_with(report.rank);
    }
}

void ReplicaSet::lost(int launch, int rank) {
  for (Replica& replica : replicas_)
    if (replica.cohort && replica.cohort->id() == launch) {
      replica.cohort->part_with(rank);
      replica.cohort->lose(rank, Clock::now());
    }
}

void ReplicaSet::excuse(Clock::duration absence) {
  for (Replica& replica : replicas_)
    if (replica.cohort) replica.cohort->excuse(absence, Clock::now());
}

// A worker that hangs or was stopped blocks those that wait for it, while its launcher sees it alive.
// Progress does not matter here, because a worker may have to wait for others.
void ReplicaSet::look_for_silence(Replica& replica) {
  const auto now = Clock::now();
  if (const std::optional<Cohort::Silence> silence = replica.cohort->silent(now, options_.patience))
    replica.cohort->give_up(silence->rank,
                            fmt::format("nothing heard of it for {:.1f} s",
                                        std::chrono::duration<double>(silence->since).count()),
                            now);
}

void ReplicaSet::start(std::size_t index, const FindServers& servers) {
  Replica& replica = replicas_[index];
  const int launch = dispatch_.next_launch();
  const FleetProcess process{.index = int(index),
                             .launch = launch,
                             .control = dispatch_.control(),
                             .workers = replica.place.workers,
                             .replicas = size(),
                             .servers = servers()};
  Placement placement{.hosts = {}, .workers = replica.place.workers};
  if (!replica.place.host.empty()) placement.hosts = {{replica.place.host, replica.place.workers}};
  replica.cohort = std::make_unique<Cohort>(launch, placement, 1,
                                            dispatch_.start_world({.launch = launch,
                                                                   .host = replica.place.host,
                                                                   .workers = replica.place.workers,
                                                                   .command = options_.command(process)}));
  replica.told_to_go = false;
}

void ReplicaSet::order(const Replica& replica, const comm::WorkerOrder& order) {
  for (int rank = 0; replica.cohort && rank < replica.cohort->workers(); ++rank)
    dispatch_.order(replica.cohort->id(), rank, order);
}

void ReplicaSet::stop() {
  stopping_ = true;
  for (const Replica& replica : replicas_) order(replica, {.kind = "stop"});
}

void ReplicaSet::tell_servers(const std::vector<std::string>& targets) {
  for (const Replica& replica : replicas_)
    if (replica.told_to_go) order(replica, servers_order(targets));
}

void ReplicaSet::set_pace(Pace pace) {
  pace_ = pace;
  for (const Replica& replica : replicas_)
    order(replica, {.kind = is_paused() || replica.rests ? "pause" : "continue"});
}

comm::CommandReply ReplicaSet::set_pace_of(std::int64_t index, Pace pace) {
  if (index < 0 || index >= size())
    return {false, fmt::format("there is no replica {}: the run has {}", index, size())};
  Replica& replica = replicas_[std::size_t(index)];
  if (options_.stops_together && pace == Pace::kPause && !replica.rests && spares_left() == 0)
    return {
        false,
        options_.spares == 0
            ? "in modes \"sync\" and \"decomposed\" replicas wait for each other: pause the whole run"
            : fmt::format("others would wait for it: of {} spare replicas none is left; pause the whole run",
                          options_.spares)};
  replica.rests = pace == Pace::kPause;
  if (is_away(replica)) {
    if (replica.cohort) replica.cohort->kill_all();
  } else {
    order(replica, {.kind = replica.rests || is_paused() ? "pause" : "continue"});
  }
  return {true, "done"};
}

int ReplicaSet::spares_left() const {
  const auto is_missing = [](const Replica& replica) { return replica.rests || replica.given_up; };
  return std::max(0, options_.spares - int(std::ranges::count_if(replicas_, is_missing)));
}

comm::CommandReply ReplicaSet::scale(std::int64_t replicas) {
  if (options_.stops_together)
    return {false,
            "in modes \"sync\" and \"decomposed\" each replica has its part for the run's whole life; use "
            "\"async\", \"bounded\" or \"hybrid\""};
  if (stopping_) return {false, "the run is stopping"};
  if (options_.places.empty()) return {false, "servers that stand have no replicas; give --servers"};
  const std::int64_t most = options_.most > 0 ? options_.most : comm::kMostReplicas;
  if (replicas < options_.least || replicas > most)
    return {false, fmt::format("this run can have {} to {} replicas (elastic.min, elastic.max), not {}",
                               options_.least, most, replicas)};
  for (std::int64_t i = 0; i < size(); ++i) {
    Replica& replica = replicas_[std::size_t(i)];
    if (i < replicas && std::exchange(replica.is_leaving, false)) replica.done = false;
    if (i >= replicas && !std::exchange(replica.is_leaving, true)) order(replica, {.kind = "stop"});
  }
  while (size() < replicas)
    replicas_.push_back({.place = options_.places[replicas_.size() % options_.places.size()]});
  dispatch_.event("scale", {{"replicas", replicas}});
  return {true, fmt::format("{} replica{}", replicas, replicas == 1 ? "" : "s")};
}

int ReplicaSet::wanted() const { return int(std::ranges::count(replicas_, false, &Replica::is_leaving)); }

// Call when the cohort's launcher has ended.
std::optional<FleetFailure> ReplicaSet::end_of(std::size_t index) {
  Replica& replica = replicas_[index];
  const int code = replica.cohort->child().exit_code();
  if (code == 0 || (code == 130 && is_ending(replica))) {
    replica.done = true;
    replica.cohort.reset();
    return std::nullopt;
  }
  if (is_away(replica)) {  // ended for a pause
    replica.cohort->kill_workers();
    replica.cohort.reset();
    ++replica.pauses;
    dispatch_.event("replica paused", {{"replica", index}});
    return std::nullopt;
  }
  if (!replica.cohort->is_broken()) replica.cohort->lose(-1, Clock::now());
  const Loss loss = replica.cohort->loss();
  replica.losses.push_back(loss);
  // A server that hangs keeps a replica from joining until the server is replaced.
  const RecoveryPolicy policy{.restarts = options_.policy.restarts, .runs_elsewhere = step() >= 0};
  const RecoveryDecision decision = decide_recovery(policy, replica.losses);
  if (!replica.lost_at) replica.lost_at = replica.cohort->lost_at();
  replica.cohort->kill_workers();
  replica.cohort.reset();
  dispatch_.event("replica lost", {{"replica", index},
                                   {"host", replica.place.host},
                                   {"signal", loss.signal},
                                   {"exit_code", loss.exit_code},
                                   {"step", loss.step},
                                   {"reason", loss.reason},
                                   {"decision", decision.restart ? "restart" : "give up"},
                                   {"why", decision.reason}});
  replica.not_before = Clock::now() + decision.delay;
  if (decision.restart) {
    dispatch_.say(fmt::format("replica {}: {}; starting it again", index, loss.describe()));
    return std::nullopt;
  }
  const bool can_do_without = !options_.stops_together || spares_left() > 0;
  replica.given_up = true;
  dispatch_.say(fmt::format("replica {}: {}; given up: {}", index, loss.describe(), decision.reason));
  const bool is_bad_job = was_refused(loss, step());
  if (index > 0 && can_do_without && !is_bad_job) return std::nullopt;
  return FleetFailure{fmt::format("replica {} was given up", index), is_bad_job ? 2 : 1};
}

void ReplicaSet::note_recovery(std::size_t index) {
  Replica& replica = replicas_[index];
  if (!replica.lost_at || replica.cohort->first_step() < 0) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - *replica.lost_at).count();
  dispatch_.say(fmt::format("replica {} is back after {:.1f} s", index, seconds));
  dispatch_.event("replica recovered", {{"replica", index}, {"seconds", seconds}});
  replica.lost_at.reset();
}

void ReplicaSet::begin(std::size_t index, const FindServers& servers) {
  Replica& replica = replicas_[index];
  replica.told_to_go = true;
  const int starts_before = int(replica.losses.size()) + replica.pauses;
  const nlohmann::json text = {{"generation", starts_before + 1},
                               {"recoveries", replica.losses.size()},
                               {"fence", 0},
                               {"resume", options_.resume && (index == 0 || starts_before == 0)}};
  dispatch_.event("replica", {{"replica", index},
                              {"launch", replica.cohort->id()},
                              {"host", replica.place.host},
                              {"workers", replica.place.workers}});
  order(replica, servers_order(servers()));  // they may have changed since it was started
  order(replica, {.kind = "go", .value = 0, .text = text.dump()});
  if (is_paused() || replica.rests) order(replica, {.kind = "pause"});
}

std::optional<FleetFailure> ReplicaSet::look_at(std::size_t index, const FindServers& servers) {
  Replica& replica = replicas_[index];
  if (replica.done || replica.given_up) return std::nullopt;
  if (!replica.cohort) {
    if (is_ending(replica))
      replica.done = true;
    else if (Clock::now() >= replica.not_before && !is_away(replica))
      start(index, servers);
    return std::nullopt;
  }
  if (replica.cohort->child().ended()) return end_of(index);
  if (replica.cohort->is_broken()) {
    if (Clock::now() - replica.cohort->lost_at() > std::chrono::seconds(1)) replica.cohort->kill_all();
    return std::nullopt;
  }
  look_for_silence(replica);
  if (!replica.told_to_go && !is_ending(replica) && replica.cohort->is_ready()) begin(index, servers);
  note_recovery(index);
  return std::nullopt;
}

std::optional<FleetFailure> ReplicaSet::look(const FindServers& servers) {
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    if (const auto failure = look_at(i, servers)) return failure;
  return std::nullopt;
}

bool ReplicaSet::are_all_over() const {
  return std::ranges::all_of(replicas_,
                             [](const Replica& replica) { return replica.done || replica.given_up; });
}

nlohmann::json ReplicaSet::workers() const {
  nlohmann::json workers = nlohmann::json::array();
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    if (!replicas_[i].cohort) continue;
    for (const auto& [rank, report] : replicas_[i].cohort->reports()) {
      nlohmann::json worker = shown(rank, report);
      worker.update({{"replica", i},
                     {"pipeline", rank / options_.groups.tensor % options_.groups.pipeline},
                     {"tensor", rank % options_.groups.tensor}});
      workers.push_back(std::move(worker));
    }
  }
  return workers;
}

std::int64_t ReplicaSet::step() const {
  std::int64_t step = -1;
  for (const Replica& replica : replicas_)
    if (replica.cohort) step = std::max(step, replica.cohort->step());
  return step;
}

const comm::WorkerReport* ReplicaSet::said_by(const Replica& replica) {
  if (!replica.cohort) return nullptr;
  const auto first = replica.cohort->reports().find(0);
  return first == replica.cohort->reports().end() ? nullptr : &first->second;
}

double ReplicaSet::loss() const {
  const comm::WorkerReport* const said = replicas_.empty() ? nullptr : said_by(replicas_[0]);
  return said ? said->loss : 0;
}

std::int64_t ReplicaSet::epoch() const {
  const comm::WorkerReport* const said = replicas_.empty() ? nullptr : said_by(replicas_[0]);
  return said ? said->epoch : 0;
}

// Replicas that take every step together each count all of its samples.
double ReplicaSet::samples_per_second() const {
  const comm::WorkerReport* const first = replicas_.empty() ? nullptr : said_by(replicas_[0]);
  if (options_.stops_together) return first ? first->samples_per_second : 0;
  double all = 0;
  for (const Replica& replica : replicas_)
    if (const comm::WorkerReport* const said = said_by(replica)) all += said->samples_per_second;
  return all;
}

int ReplicaSet::recoveries() const {
  int all = 0;
  for (const Replica& replica : replicas_) all += int(replica.losses.size());
  return all;
}

std::vector<Child*> ReplicaSet::children() {
  std::vector<Child*> all;
  for (Replica& replica : replicas_)
    if (replica.cohort) all.push_back(&replica.cohort->child());
  return all;
}

}  // namespace distbelief::cluster
