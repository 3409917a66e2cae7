#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "distbelief/cluster/own_address.h"
#include "distbelief/cluster/supervision.h"
#include "distbelief/comm/rpc/certificates.h"

// The part of the supervisor that handles hosts.
namespace distbelief::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kAskAgain{10};        // for a host that did not answer
constexpr seconds kAskLeaverAgain{60};  // for one that announced its end
constexpr seconds kAskWeakAgain{3600};  // for one with too weak a processor
constexpr seconds kClearDeadline{15};
constexpr seconds kClearLostDeadline{5};

// Certificates made for a run must outlive the longest run.
constexpr std::chrono::days kRunCertificates{3650};

}  // namespace

// Workers on other hosts connect over TCP with certificates: the user's, or ones made for this run only.
void Supervisor::listen_to_hosts() {
  std::filesystem::path folder = options_.certs;
  if (folder.empty()) {
    folder = options_.place.folder / kCertificatesFolder;
    std::filesystem::remove_all(folder);  // left by a supervisor that was killed
    comm::make_certificates(folder, kRunCertificates);
    secrets_ = {fmt::format("{}={}", kCertificatesVariable,
                            comm::pack_certificates(comm::secure_address("", folder, "worker")))};
  }
  comm::ControlAddress address = comm::secure_address("0.0.0.0:0", folder, "supervisor");
  address.silence = options_.silence;
  far_server_.emplace(address, *this);
  const std::string target = far_server_->target();
  const std::string own = options_.address.empty() ? own_address(options_.hosts) : options_.address;
  control_ = own + target.substr(target.rfind(':'));
}

int Supervisor::wanted() const {
  const int workers = asked_for_.value_or(board_.is_local() ? options_.workers : board_.slots());
  const int most =
      std::min({workers, options_.max, options_.lanes > 0 ? options_.lanes / threads_ : workers});
  return options_.usable ? options_.usable(most) : most;
}

// This process was stopped, or the machine slept.
void Supervisor::note_own_absence() {
  const auto now = Clock::now();
  if (now - last_look_ > kOwnAbsence)
    for (const auto& cohort : {active_.get(), next_.get()})
      if (cohort) cohort->excuse(now - last_look_, now);
  last_look_ = now;
}

void Supervisor::look_at_hosts() {
  note_own_absence();
  const auto now = Clock::now();
  look_for_hang();
  look_for_notices();
  if (board_.is_local()) return;
  for (const auto& cohort : {active_.get(), next_.get()})
    if (cohort) look_for_silence(*cohort, options_.silence);
  const std::vector<std::string> due = board_.due(now);
  watch_.ask(due);
  for (const std::string& host : due) board_.retry_later(host, now + kAskAgain);
  const HostWatch::News news = watch_.take();
  for (const std::string& complaint : news.complaints) say(complaint);
  for (const HostWatch::Answer& answer : news.answers) take_answer(answer);
  if (!news.hosts || !board_.replace(*news.hosts)) return;
  change_ = fmt::format("the hosts are now {}", news.hosts->empty() ? "none" : to_string(*news.hosts));
  say(change_);
  event("hosts", {{"hosts", to_string(*news.hosts)}});
}

void Supervisor::take_answer(const HostWatch::Answer& answer) {
  const bool good = answer.isa && *answer.isa >= options_.launch.isa;
  const bool was_good = board_.is_good(answer.host);
  if (good && !was_good) {
    board_.take_back(answer.host);
    lost_hosts_.erase(answer.host);
    change_ = fmt::format("host {} is back", answer.host);
    event("host back", {{"host", answer.host}});
  } else if (!good) {
    const std::string why = answer.isa ? fmt::format("has only {}, the run uses {}", to_string(*answer.isa),
                                                     to_string(options_.launch.isa))
                                       : "does not answer";
    board_.set_aside(answer.host, why, Clock::now() + (answer.isa ? kAskWeakAgain : kAskAgain));
    if (was_good) say(fmt::format("host {} {}", answer.host, why));
    if (was_good) event("host lost", {{"host", answer.host}, {"reason", why}});
    if (!answer.isa) lost_hosts_.insert(answer.host);
    if (questioned_.contains(answer.host)) unexplained_.reset();  // this answer explains the loss
  }
  questioned_.erase(answer.host);
  if (!questioned_.empty() || !unexplained_) return;
  recover(*unexplained_);
  unexplained_.reset();
}

// Asks a silent host again only after its workers have noticed and gone.
void Supervisor::look_for_silence(Cohort& cohort, milliseconds allowed) {
  const auto now = Clock::now();
  for (const std::string& host : cohort.silent_hosts(now, allowed)) {
    if (!board_.is_good(host)) continue;
    const std::string why =
        fmt::format("silent for {:.1f} s", std::chrono::duration<double>(allowed).count());
    board_.set_aside(host, why, now + 3 * options_.silence);
    lost_hosts_.insert(host);
    event("host lost", {{"host", host}, {"reason", why}});
    cohort.give_up(host, why, now);
  }
}

// A worker that got SIGTERM reports it and continues; its machine is about to go.
void Supervisor::look_for_notices() {
  if (!active_ || active_->is_broken() || stopping_) return;
  const auto now = Clock::now();
  if (board_.is_local() && active_->is_leaving("", now)) {
    say("a worker was told that this machine is about to go: saving and stopping");
    stopping_ = true;
    order_all(*active_, {.kind = "stop", .value = 0, .text = {}});
  }
  for (const HostSlots& host : active_->placement().hosts) {
    if (!board_.is_good(host.host) || !active_->is_leaving(host.host, now)) continue;
    board_.set_aside(host.host, "about to go", now + kAskLeaverAgain);
    change_ = fmt::format("host {} is about to go", host.host);
    say(change_ + "; its workers move");
    event("host leaving", {{"host", host.host}});
  }
}

void Supervisor::look_for_hang() {
  const auto now = Clock::now();
  const double allowed = std::chrono::duration<double>(options_.deadline).count();
  if (active_ && !active_->is_broken())
    if (const std::optional<int> rank = active_->stuck(now, options_.deadline + seconds(1)))
      active_->give_up(*rank,
                       fmt::format("no progress for {:.0f} s, in phase {}", allowed + 1,
                                   active_->reports().at(*rank).phase),
                       now);
  const auto start = std::max<Clock::duration>(options_.deadline, kShortestStart);
  if (next_ && !next_->is_ready() && !next_->is_broken() && now - next_->since() > start)
    next_->give_up(-1,
                   fmt::format("not ready after {:.0f} s: {}", std::chrono::duration<double>(start).count(),
                               next_->late()),
                   now);
}

void Supervisor::await_hosts() {
  if (waiting_) return;
  waiting_ = true;
  const std::string absent = board_.absent();
  say(fmt::format("waiting for hosts: those there are have no room for {} worker{} (elastic.min){}",
                  options_.min, options_.min == 1 ? "" : "s", absent.empty() ? "" : "; absent: " + absent));
  event("waiting", {{"min", options_.min}, {"absent", absent}});
}

// Removes the run's data from a host when the run ends. A lost host cleans up itself if it can; but stopped
// workers cannot, so it is asked too, with a short deadline, because a silent host may answer again. `kept`:
// a file for the host's snapshots; empty: they are discarded.
bool Supervisor::clear_host(const std::string& host, const std::filesystem::path& kept) const {
  const std::atomic<bool> never{false};
  const bool is_lost = lost_hosts_.contains(host);
  LaunchOptions launch;
  launch.session_folder = options_.place.launcher;  // removed with the run, even if this launcher is killed
  launch.isa = options_.launch.isa;
  launch.hosts = {{host, 1}};
  launch.command = {options_.watch.program.string(), "clear-host", options_.place.snapshots};
  if (!kept.empty())
    launch.command.insert(launch.command.end(), {"--keep", std::filesystem::absolute(kept).string()});
  const seconds deadline = is_lost ? kClearLostDeadline : kClearDeadline;
  return output_of(launch_command(launch), deadline, never).has_value() || (is_lost && kept.empty());
}

void Supervisor::clear_hosts() {
  std::vector<std::pair<std::string, std::future<bool>>> done;
  for (const std::string& host : used_)
    done.emplace_back(host, std::async(std::launch::async, [this, host] { return clear_host(host, {}); }));
  for (auto& [host, well] : done)
    if (!well.get())
      say(fmt::format("could not remove the run's snapshots from {}; the next run there does", host));
}

}  // namespace distbelief::cluster
