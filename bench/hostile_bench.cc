// What honest replicas keep of their throughput while others misbehave: hostile_bench [WINDOWS] [SECONDS]
//
// A parameter server, an honest replica that pushes and fetches 4 MB over shared memory as fast as it can,
// and peers that push NaN, push what there is not, push the same again and again, connect and leave, send
// noise, bring first values again and again, and one that asks and never reads. Windows with and without them take turns; medians. The peers run
// at idle priority: what they do themselves is not the server's fault, what they make the server do is
// measured.
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/server/client.h"
#include "distbelief/server/service.h"

namespace {

using namespace distbelief;
using namespace std::chrono_literals;
using comm::StoreRequest;
using Clock = std::chrono::steady_clock;
using Kind = comm::StoreRequest::Kind;

constexpr std::size_t kElements = 4 * comm::kSliceElements;
constexpr std::int64_t kTickets = std::int64_t{1} << 40;

comm::SpaceSpec job() {
  comm::SpaceSpec spec{.job = "honest",
                       .elements = kElements,
                       .parameters = {{.begin = 0, .count = kElements}},
                       .mode = "async",
                       .tickets = kTickets};
  spec.optimizer.momentum = 0;
  return spec;
}

// Seen by all processes.
struct Shared {
  std::atomic<bool> attacking{false};
  std::atomic<std::int64_t> offences{0}, connections{0};
};

pid_t start(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  spdlog::set_level(spdlog::level::off);
  work();
  _exit(0);
}

void serve(const std::string& target) {
  server::Service service({.id = 0});
  const comm::ExchangeServer exchange({.address = {.target = target}, .shared_limit = std::size_t{1} << 30},
                                      service);
  service.set_map(server::first_map({{.id = 0, .target = target}}));
  for (;;) pause();
}

comm::ExchangeClient connected(const std::string& target) {
  return comm::ExchangeClient({.address = {.target = target}, .name = "mallory"});
}

// Does one thing again and again while it is the time for it.
void misbehave(const std::string& target, Shared& shared,
               const std::function<void(comm::ExchangeClient&)>& offence) {
  for (;;) try {
      comm::ExchangeClient client = connected(target);
      ++shared.connections;
      for (;;) {
        while (!shared.attacking) std::this_thread::sleep_for(1ms);
        try {
          offence(client);
        } catch (const Error& error) {
          if (error.code() == ErrorCode::kUnavailable) throw;
        }
        ++shared.offences;
      }
    } catch (const Error&) {
      std::this_thread::sleep_for(1ms);
    }
}

std::uint64_t space_of(comm::ExchangeClient& client, int replica) {
  const std::string text = comm::encode(job());
  return comm::decode_answer(
             client
                 .send(comm::encode(StoreRequest{.kind = Kind::kOpen, .replica = replica}),
                       std::as_bytes(std::span(text)), {})
                 .wait(10s)
                 .header)
      .space;
}

void attack(const std::string& target, Shared& shared) {
  const sched_param lowest{};
  sched_setscheduler(0, SCHED_IDLE, &lowest);
  std::uint64_t space = 0;
  {
    comm::ExchangeClient first = connected(target);
    space = space_of(first, 10);
  }
  std::vector<float> bad(comm::kSliceElements, 0.1F);
  const std::vector<float> good = bad;
  bad.back() = std::numeric_limits<float>::quiet_NaN();
  const auto push = [&](comm::ExchangeClient& client, const std::vector<float>& values, int replica,
                        std::int64_t ticket) {
    const StoreRequest message{.kind = Kind::kPush,
                               .space = space,
                               .replica = replica,
                               .incarnation = 1,
                               .ticket = ticket,
                               .lr = 0.1};
    client.send(comm::encode(message), std::as_bytes(std::span(values)), {}).wait(20s);
  };
  const std::string noise(2000, '\xa7');
  std::vector<std::jthread> peers;
  const auto add = [&](const std::function<void(comm::ExchangeClient&)>& offence) {
    peers.emplace_back([&shared, &target, offence] { misbehave(target, shared, offence); });
  };
  add([&](auto& client) { push(client, bad, 11, 1); });
  add([&](auto& client) { push(client, good, 12, kTickets); });
  add([&](auto& client) { push(client, good, 13, 0); });  // which has been done
  add([&](auto& client) {  // first values, again and again
    const StoreRequest message{.kind = Kind::kFill, .space = space, .replica = 15, .incarnation = 1};
    client.send(comm::encode(message), std::as_bytes(std::span(good)), {}).wait(20s);
  });
  add([&](auto& client) { client.send(noise, {}, {}).wait(20s); });
  add([&](auto&) {
    connected(target);
    ++shared.connections;
    std::this_thread::sleep_for(10ms);
  });
  peers.clear();  // never
}

// Asks for values and stops itself: it reads nothing, until it is woken when all is over.
void stall(const std::string& target, const Shared& shared) {
  comm::ExchangeClient client = connected(target);
  const std::uint64_t space = space_of(client, 14);
  std::vector<std::vector<float>> room(16, std::vector<float>(comm::kSliceElements));
  for (;;) {
    while (!shared.attacking) std::this_thread::sleep_for(1ms);
    std::vector<comm::ExchangeClient::Pending> asked;
    for (std::vector<float>& into : room)
      asked.push_back(
          client.send(comm::encode(StoreRequest{.kind = Kind::kPull, .space = space, .replica = 14}), {},
                      std::as_writable_bytes(std::span(into))));
    raise(SIGSTOP);
    for (auto& one : asked) one.wait(20s);
  }
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ptrdiff_t(values.size() / 2));
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int windows = argc > 1 ? std::stoi(argv[1]) : 9;
  const std::chrono::duration<double> length(argc > 2 ? std::stod(argv[2]) : 1.0);
  const ScratchFolder scratch;
  const std::string target = "unix:" + (scratch.path() / "server").string();
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Shared& shared = *new (memory) Shared;
  // All of them before this process has threads.
  std::vector<pid_t> children{start([&] { serve(target); })};
  std::this_thread::sleep_for(500ms);
  const pid_t stalled = start([&] {
    while (true) try {
        stall(target, shared);
      } catch (const Error&) {
        std::this_thread::sleep_for(10ms);
      }
  });
  const pid_t attackers = start([&] {
    std::this_thread::sleep_for(1s);  // the honest one opens the job
    attack(target, shared);
  });
  children.insert(children.end(), {stalled, attackers});

  std::vector<float> values(kElements, 1), gradient(kElements, 1e-6F);
  server::Client honest({.servers = {{.target = target}}, .spec = job(), .deadline = 20s}, values.data());
  std::this_thread::sleep_for(1500ms);
  std::int64_t ticket = 0;
  std::vector<double> rates[2];
  for (int window = 0; window < 2 * windows; ++window) {
    const bool attacked = window % 2 == 1;
    shared.attacking = attacked;
    if (!attacked) kill(stalled, SIGCONT);
    std::this_thread::sleep_for(100ms);
    const auto begin = Clock::now();
    std::int64_t pushes = 0;
    for (; Clock::now() - begin < length; ++pushes)
      honest.push_pull({.ticket = ticket++, .lr = 0.1}, gradient, values);
    rates[attacked].push_back(double(pushes) / std::chrono::duration<double>(Clock::now() - begin).count());
  }
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  const double alone = median(rates[0]), meanwhile = median(rates[1]);
  fmt::print(
      "{:.1f} pushes/s alone, {:.1f} while others misbehave: {:.1f} % (wanted: 95 %); {} offences, {} "
      "connections\n",
      alone, meanwhile, 100 * meanwhile / alone, shared.offences.load(), shared.connections.load());
  return 0;
}
