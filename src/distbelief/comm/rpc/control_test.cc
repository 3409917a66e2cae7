#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/comm/rpc/control_client.h"
#include "distbelief/testing/test_supervisor.h"

namespace distbelief::comm {
namespace {

using std::chrono::seconds;

const WorkerReport kReady{.generation = 3,
                          .rank = 1,
                          .pid = 4711,
                          .host = "node\xff",  // a name need not be UTF-8
                          .state = "ready",
                          .step = 12,
                          .phase = "forward",
                          .step_seconds = 0.5,
                          .busy_seconds = 0.25,
                          .snapshot_step = 10,
                          .checkpoint_step = 8,
                          .loss = 1.5,
                          .samples_per_second = 2000,
                          .epoch = 2,
                          .lanes = {0, 5, 7},
                          .message = "nothing",
                          .by_job = true};

WorkerReport in_state(WorkerReport report, const std::string& state) {
  report.state = state;
  return report;
}

enum class Way { kUnix, kTls };

// A server and its clients' addresses, for each kind of connection.
class Control : public ::testing::TestWithParam<Way> {
 protected:
  Control() {
    if (GetParam() == Way::kTls) make_certificates(scratch_.path(), std::chrono::days(1));
    server_.emplace(address("supervisor", "localhost:0"), handler_);
  }

  ControlAddress address(const std::string& role, const std::string& tcp_target) const {
    if (GetParam() == Way::kUnix) return {.target = "unix:" + (scratch_.path() / "control").string()};
    return secure_address(tcp_target, scratch_.path(), role);
  }
  ControlAddress address(const std::string& role) const { return address(role, server_->target()); }

  ControlClient::Options worker() {
    return {.address = address("worker"),
            .on_order = [this](const WorkerOrder& order) { orders_.put(order); },
            .on_lost = [this] { lost_.put(true); }};
  }

  int raw_connection() const;

  ScratchFolder scratch_;
  testing::RecordingHandler handler_;
  testing::Mailbox<WorkerOrder> orders_;
  testing::Mailbox<bool> lost_;
  std::optional<ControlServer> server_;
};

INSTANTIATE_TEST_SUITE_P(Ways, Control, ::testing::Values(Way::kUnix, Way::kTls),
                         [](const auto& way) { return way.param == Way::kUnix ? "Unix" : "Tls"; });

int Control::raw_connection() const {
  if (GetParam() == Way::kUnix) {
    const int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
    std::strcpy(name.sun_path, (scratch_.path() / "control").c_str());
    EXPECT_EQ(connect(peer, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
    return peer;
  }
  const std::string target = server_->target();
  const int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = htons(static_cast<std::uint16_t>(std::stoi(target.substr(target.rfind(':') + 1))));
  EXPECT_EQ(connect(peer, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  return peer;
}

TEST_P(Control, CarriesReportsUpAndOrdersDown) {
  ControlClient client(worker());
  EXPECT_TRUE(client.connected());
  client.report(kReady);
  EXPECT_EQ(handler_.reports.take(), kReady);
  const WorkerOrder go{.kind = "go", .value = -5, .text = "now"};
  EXPECT_TRUE(server_->order(3, 1, go));
  EXPECT_EQ(orders_.take(), go);
}

TEST_P(Control, KeepsTheOrderOfOrders) {
  ControlClient client(worker());
  client.report(kReady);
  ASSERT_TRUE(handler_.reports.take());
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(server_->order(3, 1, {.kind = "lanes", .value = i}));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(orders_.take(), (WorkerOrder{.kind = "lanes", .value = i}));
}

TEST_P(Control, OrdersOnlyToWhoIsThere) {
  EXPECT_FALSE(server_->order(3, 1, {.kind = "go"}));
  ControlClient client(worker());
  client.report(kReady);
  ASSERT_TRUE(handler_.reports.take());
  EXPECT_FALSE(server_->order(2, 1, {.kind = "go"}));
  EXPECT_FALSE(server_->order(3, 0, {.kind = "go"}));
  client.close();
  EXPECT_FALSE(server_->order(3, 1, {.kind = "go"}));
}

TEST_P(Control, CloseDeliversWhatWasReportedAndAnEndedWorkerIsNotLost) {
  ControlClient client(worker());
  for (int i = 0; i < 50; ++i) client.report(in_state(kReady, i % 2 == 0 ? "training" : "paused"));
  client.report(in_state(kReady, "ended"));
  client.close();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(handler_.reports.take()->state, i % 2 == 0 ? "training" : "paused");
  EXPECT_EQ(handler_.reports.take()->state, "ended");
  EXPECT_TRUE(handler_.lost_workers.empty());
  EXPECT_TRUE(lost_.empty());
  EXPECT_FALSE(client.connected());
}

TEST_P(Control, WorkerThatGoesWithoutAnEndIsLost) {
  {
    ControlClient client(worker());
    client.report(kReady);
    ASSERT_TRUE(handler_.reports.take());
  }
  EXPECT_EQ(handler_.lost_workers.take(), (std::pair{3, 1}));
}

TEST_P(Control, ClosingTheServerSendsOrdersAndTellsWorkersButCallsNobodyLost) {
  ControlClient client(worker());
  client.report(kReady);
  ASSERT_TRUE(handler_.reports.take());
  server_->order(3, 1, {.kind = "stop"});
  server_->close();
  server_->close();
  EXPECT_EQ(orders_.take(), (WorkerOrder{.kind = "stop"}));
  EXPECT_TRUE(lost_.take());
  EXPECT_FALSE(client.connected());
  EXPECT_TRUE(handler_.lost_workers.empty());
}

TEST_P(Control, HeartbeatsRenewTheLease) {
  const ControlClient client(worker());
  const auto first = client.heard();
  const auto deadline = std::chrono::steady_clock::now() + seconds(20);
  while (client.heard() == first && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_GT(client.heard(), first);
}

TEST_P(Control, RefusesASecondWorkerOfTheSameRank) {
  ControlClient first(worker());
  first.report(kReady);
  ASSERT_TRUE(handler_.reports.take());
  testing::Mailbox<bool> second_lost;
  ControlClient second({.address = address("worker"), .on_lost = [&] { second_lost.put(true); }});
  second.report(kReady);
  EXPECT_TRUE(second_lost.take());
  EXPECT_TRUE(handler_.lost_workers.empty());
  EXPECT_TRUE(server_->order(3, 1, {.kind = "go"}));
  EXPECT_TRUE(orders_.take());
}

TEST_P(Control, AWorkerThatChangesItsRankIsLost) {
  ControlClient client(worker());
  client.report(kReady);
  WorkerReport other = kReady;
  other.rank = 2;
  client.report(other);
  EXPECT_EQ(handler_.lost_workers.take(), (std::pair{3, 1}));
  EXPECT_TRUE(lost_.take());
}

TEST_P(Control, AnswersCommands) {
  const CommandReply reply =
      call_supervisor(address("operator"), {.name = "scale", .value = 4, .text = "run"}, seconds(20));
  EXPECT_EQ(reply, (CommandReply{.ok = true, .text = "scale 4 run"}));
}

TEST_P(Control, ACommandThatThrowsIsAnsweredNotOk) {
  const CommandReply reply = call_supervisor(address("operator"), {.name = "throw"}, seconds(20));
  EXPECT_FALSE(reply.ok);
  EXPECT_NE(reply.text.find("no such run"), std::string::npos) << reply.text;
}

TEST_P(Control, NobodyThereIsAnErrorThatNamesTheAddress) {
  const ControlAddress gone = address("operator");
  const ControlAddress gone_for_workers = address("worker");
  server_->close();
  for (const auto& attempt : std::initializer_list<std::function<void()>>{
           [&] { call_supervisor(gone, {.name = "status"}, seconds(20)); },
           [&] {
             ControlClient({.address = gone_for_workers,

                            .on_lost = {},
                            .connect_deadline = seconds(1)});
           }}) {
    try {
      attempt();
      FAIL() << "somebody answered";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.message();
      EXPECT_NE(error.message().find(gone.target), std::string::npos) << error.message();
    }
  }
}

TEST_P(Control, AnAddressThatIsTakenIsRefused) {
  testing::RecordingHandler other;
  EXPECT_THROW(ControlServer(address("supervisor"), other), Error);
  EXPECT_TRUE(call_supervisor(address("operator"), {.name = "status"}, seconds(20)).ok);
}

TEST_P(Control, ALongReasonIsCutAndStillArrives) {
  ControlClient client(worker());
  WorkerReport failed = in_state(kReady, "failed");
  failed.message.assign(10 << 20, 'x');
  client.report(failed);
  EXPECT_EQ(handler_.reports.take()->message.size(), kMaxReportTextBytes);
  EXPECT_TRUE(client.connected());
}

TEST_P(Control, TooLongMessagesAreRefusedAndDoNoHarm) {
  const std::string huge(kMaxControlMessageBytes + 1, 'x');
  EXPECT_THROW(server_->order(3, 1, {.kind = "lanes", .value = 0, .text = huge}), Error);
  EXPECT_THROW(call_supervisor(address("operator"), {.name = "x", .value = 0, .text = huge}, seconds(20)),
               Error);
  EXPECT_TRUE(call_supervisor(address("operator"), {.name = "status"}, seconds(20)).ok);
}

TEST_P(Control, APeerThatSpeaksNonsenseDoesNoHarm) {
  ControlClient client(worker());
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (const std::string& nonsense : {std::string(5000, '\0'), std::string("GET / HTTP/1.1\r\n\r\n"),
                                      preface + std::string(3000, '\xff'), preface.substr(0, 10)}) {
    const int peer = raw_connection();
    EXPECT_GT(send(peer, nonsense.data(), nonsense.size(), MSG_NOSIGNAL), 0);
    ::close(peer);
  }
  client.report(kReady);
  EXPECT_EQ(handler_.reports.take(), kReady);
}

}  // namespace
}  // namespace distbelief::comm
