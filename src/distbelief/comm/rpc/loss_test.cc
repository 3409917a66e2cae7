// Control connections after the sudden loss of the other side.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <set>
#include <thread>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/comm/rpc/control_client.h"
#include "distbelief/testing/test_process.h"
#include "distbelief/testing/test_supervisor.h"

namespace distbelief::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Far less than any keepalive or lease: the broken connection itself must report the loss.
constexpr milliseconds kAtOnce{3000};

enum class LossWay { kUnix, kTls };

class Loss : public ::testing::TestWithParam<LossWay> {
 protected:
  Loss() { make_certificates(scratch_.path(), std::chrono::days(1)); }

  bool tls() const { return GetParam() == LossWay::kTls; }
  std::string listen_target() const {
    return tls() ? "localhost:0" : "unix:" + (scratch_.path() / "control").string();
  }
  ControlAddress address(const std::string& target, const std::string& role) const {
    return tls() ? secure_address(target, scratch_.path(), role) : ControlAddress{.target = target};
  }
  testing::TestProcess peer(const std::string& role, const std::string& target) const {
    return tls() ? testing::TestProcess({role, target, scratch_.path().string()})
                 : testing::TestProcess({role, target});
  }

  ScratchFolder scratch_;
};

INSTANTIATE_TEST_SUITE_P(Ways, Loss, ::testing::Values(LossWay::kUnix, LossWay::kTls),
                         [](const auto& way) { return way.param == LossWay::kUnix ? "Unix" : "Tls"; });

TEST_P(Loss, AKilledWorkerIsLostAtOnce) {
  testing::RecordingHandler handler;
  const ControlServer server(address(listen_target(), "supervisor"), handler);
  testing::TestProcess worker = peer("worker", server.target());
  const std::optional<WorkerReport> report = handler.reports.take();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->pid, worker.pid());
  worker.kill_now();
  EXPECT_EQ(handler.lost_workers.take(kAtOnce), (std::pair{7, 2}));
}

TEST_P(Loss, AKilledSupervisorIsLostAtOnceAlthoughItsChildLives) {
  testing::TestProcess supervisor = peer("supervisor", listen_target());
  const std::string target = supervisor.line();
  const pid_t child = std::stoi(supervisor.line());
  testing::Mailbox<bool> lost;
  const ControlClient client({.address = address(target, "worker"), .on_lost = [&] { lost.put(true); }});
  supervisor.kill_now();
  EXPECT_TRUE(lost.take(kAtOnce));
  EXPECT_EQ(kill(child, 0), 0) << "the child was to outlive its parent";
  EXPECT_FALSE(client.connected());
}

TEST_P(Loss, AKilledSupervisorsAddressCanBeUsedAgain) {
  std::string target;
  {
    testing::TestProcess supervisor = peer("supervisor", listen_target());
    target = supervisor.line();
  }
  testing::RecordingHandler handler;
  const ControlServer next(address(target, "supervisor"), handler);
  EXPECT_TRUE(call_supervisor(address(target, "operator"), {.name = "status"}, seconds(20)).ok);
}

// Descriptors that a program started now would inherit.
std::set<int> inherited() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    const int flags = fcntl(descriptor, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) found.insert(descriptor);
  }
  return found;
}

TEST_P(Loss, ChildrenInheritNoDescriptor) {
  const std::set<int> before = inherited();
  testing::RecordingHandler handler;
  const ControlServer server(address(listen_target(), "supervisor"), handler);
  ControlClient client({.address = address(server.target(), "worker")});
  client.report({.generation = 7, .rank = 2, .state = "training"});
  ASSERT_TRUE(handler.reports.take());
  EXPECT_EQ(inherited(), before);
}

// Forwards bytes between one client and the server until the link is cut: then both connections stay
// open and nothing passes, as when a cable is pulled.
class Link {
 public:
  explicit Link(const std::string& target) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in name = loopback(0);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 || listen(listener_, 1) != 0)
      throw std::runtime_error("no listening socket");
    socklen_t size = sizeof name;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&name), &size);
    target_ = "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
    const int port = std::stoi(target.substr(target.rfind(':') + 1));
    thread_ = std::jthread([this, port](const std::stop_token& stop) { forward(stop, port); });
  }
  ~Link() {
    thread_.request_stop();
    thread_.join();
    for (const int end : {listener_, ends_[0], ends_[1]}) ::close(end);
  }

  const std::string& target() const { return target_; }
  void cut() { cut_ = true; }

 private:
  static sockaddr_in loopback(int port) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.sin_port = htons(static_cast<std::uint16_t>(port));
    return name;
  }

  void forward(const std::stop_token& stop, int port) {
    pollfd waiting{.fd = listener_, .events = POLLIN, .revents = 0};
    while (!stop.stop_requested() && poll(&waiting, 1, 20) == 0) {
    }
    if (stop.stop_requested()) return;
    ends_[0] = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    ends_[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in name = loopback(port);
    if (connect(ends_[1], reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return;
    while (!stop.stop_requested() && !cut_) pass();
  }

  void pass() {
    std::array<pollfd, 2> both{pollfd{.fd = ends_[0], .events = POLLIN, .revents = 0},
                               pollfd{.fd = ends_[1], .events = POLLIN, .revents = 0}};
    poll(both.data(), both.size(), 20);
    std::array<char, 65536> bytes;
    for (std::size_t from = 0; from < 2 && !cut_; ++from) {
      if ((both[from].revents & POLLIN) == 0) continue;
      const ssize_t count = recv(ends_[from], bytes.data(), bytes.size(), 0);
      if (count > 0) send(ends_[1 - from], bytes.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL);
    }
  }

  int listener_ = -1;
  std::array<int, 2> ends_{-1, -1};
  std::string target_;
  std::atomic<bool> cut_ = false;
  std::jthread thread_;
};

TEST(CutLink, IsNoticedOnBothSidesAfterTheSilence) {
  const ScratchFolder scratch;
  make_certificates(scratch.path(), std::chrono::days(1));
  ControlAddress listening = secure_address("127.0.0.1:0", scratch.path(), "supervisor");
  listening.silence = seconds(1);
  testing::RecordingHandler handler;
  const ControlServer server(listening, handler);
  Link link(server.target());
  ControlAddress connecting = secure_address(link.target(), scratch.path(), "worker");
  connecting.silence = seconds(1);
  testing::Mailbox<bool> lost;
  ControlClient client({.address = connecting, .on_lost = [&] { lost.put(true); }});
  client.report({.generation = 7, .rank = 2, .state = "training"});
  ASSERT_TRUE(handler.reports.take());
  link.cut();
  EXPECT_TRUE(lost.take(seconds(10)));
  EXPECT_EQ(handler.lost_workers.take(seconds(10)), (std::pair{7, 2}));
}

}  // namespace
}  // namespace distbelief::comm
