// What honest replicas keep of their throughput while others misbehave: hostile_bench [WINDOWS] [SECONDS]
// [KIND...]
//
// A parameter server; two honest replicas, which take turns, one over shared memory and one over mutual TLS,
// and push and fetch 4 MB as fast as they can; and peers that misbehave, one of each kind (hostile_peers.cc,
// or those that are named), besides one that asks and never reads. The peers run at idle priority: what they
// do themselves is not the server's fault, what they make the server do is measured. Windows take turns:
// without them; with them; and with as many of them at another server, which is at idle priority as well, for
// what they take without any doing of the server (caches, memory, the kernel). Medians. How often each got
// something done is printed, and what CPU time they cost the server. Exit status 1: an honest one keeps less
// than 95 %, a kind got nothing done, or what is to be refused was taken.
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/base/median.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/server/client/client.h"
#include "distbelief/server/service/service.h"
#include "hostile_peers.h"

namespace {

using namespace distbelief;
using namespace std::chrono_literals;
using bench::Attack;
using bench::Offences;
using bench::Site;
using Clock = std::chrono::steady_clock;

constexpr double kWanted = 0.95;
constexpr std::size_t kMostAttacks = 32;
constexpr const char* kStallName = "never reads";
constexpr const char* kHere = "here";
enum Honest : std::size_t { kNear, kFar, kHonest };
// Whom the others misbehave towards.
enum Victim : std::size_t { kNobody, kServer, kOther, kVictims };
constexpr const char* kHonestNames[] = {"over shared memory", "over TLS"};

// A server and those who misbehave towards it.
struct Scene {
  std::atomic<bool> serving{false}, attacking{false};
  std::array<char, 64> far{};  // when it serves
  std::array<Offences, kMostAttacks> offences{};
  Offences stalled{};
};

// Seen by all processes.
struct Shared {
  std::array<Scene, kVictims> scenes{};
  std::atomic<int> joined{0};              // of the honest
  std::atomic<std::size_t> turn{kHonest};  // whose it is
  std::atomic<std::int64_t> next_ticket{0};
  std::array<std::atomic<std::int64_t>, kHonest> pushes{};
};

pid_t start(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  spdlog::set_level(spdlog::level::off);
  work();
  _exit(0);
}

void await(const std::function<bool()>& condition, const char* what) {
  const auto give_up = Clock::now() + 20s;
  while (!condition()) {
    if (Clock::now() > give_up)
      throw Error(ErrorCode::kTimeout, fmt::format("waited 20 s in vain: {}", what));
    std::this_thread::sleep_for(1ms);
  }
}

void serve(const Site& site, Scene& scene) {
  server::Service service({.id = 0});
  const comm::ExchangeServer near({.address = {.target = site.near}, .shared_limit = std::size_t{1} << 30},
                                  service);
  const comm::ExchangeServer far({.address = comm::secure_address("127.0.0.1:0", site.certificates, "server"),
                                  .first_connection = std::uint64_t{1} << 48},
                                 service);
  service.set_map(
      server::first_map({{.id = 0, .target = far.target(), .near = near.target(), .host = kHere}}));
  std::strncpy(scene.far.data(), far.target().c_str(), scene.far.size() - 1);
  scene.serving = true;
  for (;;) pause();
}

void be_honest(const Site& site, Honest which, Shared& shared) {
  std::vector<float> values(bench::kHostileElements, 1), gradient(bench::kHostileElements, 1e-6F);
  const comm::ControlAddress address = which == kNear
                                           ? comm::ControlAddress{.target = site.near}
                                           : comm::secure_address(site.far, site.certificates, "worker");
  server::Client client({.servers = {address},
                         .host = which == kNear ? kHere : "elsewhere",
                         .spec = bench::hostile_job(),
                         .replica = int(which),
                         .deadline = 20s},
                        values.data());
  ++shared.joined;
  for (;; ++shared.pushes[which]) {
    while (shared.turn != which) std::this_thread::sleep_for(1ms);
    client.push_pull({.ticket = shared.next_ticket++, .lr = 0.1}, gradient, values);
  }
}

void use_idle_cores() {
  const sched_param lowest{};
  sched_setscheduler(0, SCHED_IDLE, &lowest);
}

void attack(const Site& site, const std::vector<Attack>& chosen, Scene& scene) {
  use_idle_cores();
  std::vector<std::jthread> peers;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    peers.emplace_back([&, i] {
      bench::misbehave(chosen[i], bench::Peer(site, int(10 + i)), scene.attacking, scene.offences[i]);
    });
  peers.clear();  // never
}

// Asks for values and stops itself: it reads nothing, until it is woken when the window is over.
void stall(const Site& site, Scene& scene) {
  use_idle_cores();
  bench::Peer peer(site, 9);
  std::vector<std::vector<float>> room(16, std::vector<float>(comm::kSliceElements));
  for (;;) try {
      while (!scene.attacking) std::this_thread::sleep_for(1ms);
      std::vector<comm::ExchangeClient::Pending> asked;
      const comm::StoreRequest pull{
          .kind = comm::StoreRequest::Kind::kPull, .space = peer.space(), .replica = 9};
      for (std::vector<float>& into : room)
        asked.push_back(
            peer.connection().send(comm::encode(pull), {}, std::as_writable_bytes(std::span(into))));
      ++scene.stalled.taken;
      raise(SIGSTOP);
      for (auto& one : asked) one.wait(20s);
    } catch (const Error&) {
      peer.forget_connection();
      std::this_thread::sleep_for(10ms);
    }
}

std::vector<Attack> choose(int argc, char** argv) {
  if (argc <= 3) return bench::attacks();
  std::vector<Attack> chosen;
  for (int i = 3; i < argc; ++i) {
    const auto found = std::ranges::find(bench::attacks(), std::string_view(argv[i]), &Attack::name);
    if (found == bench::attacks().end())
      throw Error(ErrorCode::kBadInput, fmt::format("no kind '{}'", argv[i]));
    chosen.push_back(*found);
  }
  return chosen;
}

// Of an honest replica, by victim and window.
struct Window {
  double pushes = 0;          // per second
  double server_seconds = 0;  // of CPU time, per second
};
using Windows = std::array<std::vector<Window>, kVictims>;

double cpu_seconds(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

Window watch(std::chrono::duration<double> length, const std::atomic<std::int64_t>& pushes, pid_t server) {
  const std::int64_t before = pushes;
  const double used_before = cpu_seconds(server);
  const auto begin = Clock::now();
  std::this_thread::sleep_for(length);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return {.pushes = double(pushes - before) / seconds,
          .server_seconds = (cpu_seconds(server) - used_before) / seconds};
}

// The processes of a server and of those who misbehave towards it.
struct Crowd {
  pid_t server = 0, stalled = 0, others = 0;
};
using Crowds = std::array<Crowd, kVictims>;

void misbehave_towards(Victim victim, const Crowds& crowds, Shared& shared) {
  for (const Victim one : {kServer, kOther}) {
    shared.scenes[one].attacking = one == victim;
    if (one != victim) kill(crowds[one].stalled, SIGCONT);
  }
}

// Gives how long the others were at the server.
double measure(Honest which, int windows, std::chrono::duration<double> length, const Crowds& crowds,
               Shared& shared, Windows& found) {
  double attacked_seconds = 0;
  shared.turn = which;
  std::this_thread::sleep_for(1500ms);  // it gets warm
  for (int window = 0; window < windows; ++window)
    for (const Victim victim : {kNobody, kServer, kOther}) {
      const auto begin = Clock::now();
      misbehave_towards(victim, crowds, shared);
      std::this_thread::sleep_for(100ms);
      found[victim].push_back(watch(length, shared.pushes[which], crowds[kServer].server));
      if (victim == kServer) attacked_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    }
  misbehave_towards(kNobody, crowds, shared);
  return attacked_seconds;
}

bool judge(const char* name, Attack::Fate fate, const Offences& offences, double seconds) {
  const std::int64_t refused = offences.refused, taken = offences.taken;
  const bool is_well = refused + taken > 0 && (fate == Attack::Fate::kMayBeTaken || taken == 0);
  fmt::print("{:>20} {:>10.1f} /s, {} refused, {} taken{}\n", name, double(refused + taken) / seconds,
             refused, taken,
             is_well                ? ""
             : refused + taken == 0 ? ": GOT NOTHING DONE"
                                    : ": WAS TO BE REFUSED");
  return is_well;
}

std::vector<double> rates(const std::vector<Window>& windows) {
  std::vector<double> all;
  for (const Window& one : windows) all.push_back(one.pushes);
  return all;
}

// CPU time of the server that was not for the honest one's pushes, per second.
double cost_seconds(const Windows& found) {
  const auto sum = [](const std::vector<Window>& windows, double Window::*part) {
    double all = 0;
    for (const Window& one : windows) all += one.*part;
    return all;
  };
  const double each = sum(found[kNobody], &Window::server_seconds) / sum(found[kNobody], &Window::pushes);
  const double own = each * sum(found[kServer], &Window::pushes);
  return (sum(found[kServer], &Window::server_seconds) - own) / double(found[kServer].size());
}

bool report_honest(Honest which, const Windows& found) {
  std::array<double, kVictims> medians{};
  constexpr const char* kWhen[] = {"alone", "while others misbehave", "while they do so elsewhere"};
  fmt::print("honest {}, pushes/s:\n", kHonestNames[which]);
  for (const Victim victim : {kNobody, kServer, kOther}) {
    const std::vector<double> all = rates(found[victim]);
    medians[victim] = median(all);
    fmt::print("{:>28} {:>7.1f} ({:.1f} to {:.1f})\n", kWhen[victim], medians[victim], std::ranges::min(all),
               std::ranges::max(all));
  }
  fmt::print(
      "  keeps {:.1f} % (wanted: {:.0f} %); {:.1f} % of what it has while they are elsewhere; they cost "
      "the server {:.0f} ms of CPU time a second\n",
      100 * medians[kServer] / medians[kNobody], 100 * kWanted, 100 * medians[kServer] / medians[kOther],
      1e3 * cost_seconds(found));
  return medians[kServer] >= kWanted * medians[kNobody] && medians[kNobody] > 0;
}

bool report_others(const std::vector<Attack>& chosen, const Scene& scene, double seconds) {
  bool is_well = judge(kStallName, Attack::Fate::kMayBeTaken, scene.stalled, seconds);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    is_well = judge(chosen[i].name, chosen[i].fate, scene.offences[i], seconds) && is_well;
  return is_well;
}

// This process has no threads: it forks and counts.
pid_t start_server(Site& site, Victim victim, Scene& scene) {
  const pid_t server = start([&] {
    if (victim == kOther) use_idle_cores();
    serve(site, scene);
  });
  await([&] { return scene.serving.load(); }, "a server");
  site.far = scene.far.data();
  return server;
}

int run(int argc, char** argv) {
  const int windows = argc > 1 ? std::stoi(argv[1]) : 9;
  const std::chrono::duration<double> length(argc > 2 ? std::stod(argv[2]) : 1.0);
  const std::vector<Attack> chosen = choose(argc, argv);
  const ScratchFolder scratch;
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Shared& shared = *new (memory) Shared;
  comm::make_certificates(scratch.path() / "certificates", std::chrono::days(1));
  std::array<Site, kVictims> sites;
  Crowds crowds;
  std::vector<pid_t> children;
  for (const Victim victim : {kServer, kOther}) {
    sites[victim] = {.near = fmt::format("unix:{}/server{}", scratch.path().string(), std::size_t(victim)),
                     .certificates = scratch.path() / "certificates"};
    crowds[victim].server = start_server(sites[victim], victim, shared.scenes[victim]);
    children.push_back(crowds[victim].server);
  }
  for (const Honest which : {kNear, kFar}) {
    children.push_back(start([&] { be_honest(sites[kServer], which, shared); }));
    await([&] { return shared.joined > int(which); }, "an honest replica that has joined");
  }
  for (const Victim victim : {kServer, kOther}) {
    Crowd& crowd = crowds[victim];
    crowd.stalled = start([&] { stall(sites[victim], shared.scenes[victim]); });
    crowd.others = start([&] { attack(sites[victim], chosen, shared.scenes[victim]); });
    children.insert(children.end(), {crowd.stalled, crowd.others});
  }

  std::array<Windows, kHonest> found;
  double seconds = 0;
  for (const Honest which : {kNear, kFar})
    seconds += measure(which, windows, length, crowds, shared, found[which]);
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  bool is_well = report_others(chosen, shared.scenes[kServer], seconds);
  for (const Honest which : {kNear, kFar}) is_well = report_honest(which, found[which]) && is_well;
  return is_well ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const std::exception& error) {
  fmt::print(stderr, "hostile_bench: {}\n", error.what());
  return 2;
}
