#include "distbelief/comm/rpc/control_client.h"

#include <fmt/format.h>
#include <proto/control.grpc.pb.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/messages.h"
#include "distbelief/comm/rpc/report_queue.h"
#include "distbelief/comm/rpc/transport.h"

namespace distbelief::comm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kFlushDeadline{2};
constexpr std::chrono::seconds kAnswerTime{1};

// Converts gRPC's status to our error. `what` names the attempt.
Error to_error(const grpc::Status& status, const ControlAddress& address, std::string_view what) {
  const std::string reason = fmt::format("{} at {}: {}", what, address.target, status.error_message());
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return {ErrorCode::kUnavailable,
              fmt::format("no supervisor answers; {}; is the run still going{}?", reason,
                          socket_path(address).empty() ? ", and are both certificates of one CA" : "")};
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {ErrorCode::kTimeout, "the supervisor did not answer in time; " + reason};
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::INVALID_ARGUMENT:
      return {ErrorCode::kBadInput, "the supervisor refused; " + reason};
    default: return {ErrorCode::kInternal, "the supervisor could not be asked; " + reason};
  }
}

}  // namespace

class ControlClient::State {
 public:
  explicit State(Options options)
      : options_(std::move(options)),
        channel_(open_channel(options_.address)),
        stub_(wire::Control::NewStub(channel_)) {
    quiet_grpc();
    // gRPC takes a wall-clock time and converts it to a duration at once; our own wait must use a clock that
    // cannot be set.
    const auto deadline = Clock::now() + options_.connect_deadline;
    connected_ = channel_->WaitForConnected(std::chrono::system_clock::now() + options_.connect_deadline);
    stream_ = stub_->Work(&context_);
    receiver_ = std::jthread([this] { receive(); });
    pthread_setname_np(receiver_.native_handle(), "db-orders");
    // Without a connection the stream fails at once with the reason; allow time for that.
    wait_for_acceptance(std::max(deadline, Clock::now() + kAnswerTime));
    sender_ = std::jthread([this] { send(); });
    pthread_setname_np(sender_.native_handle(), "db-reports");
  }

  // Cancelling makes every read and write return, so the threads end.
  ~State() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      reports_.clear();
    }
    context_.TryCancel();
    changed_.notify_all();
  }

  void report(const WorkerReport& report) {
    {
      const std::lock_guard lock(mutex_);
      if (closing_ || ended_) return;
      reports_.push(report);
    }
    changed_.notify_all();
  }

  void close() {
    std::unique_lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    // The supervisor ends the stream when it has read the last report.
    if (changed_.wait_for(lock, kFlushDeadline, [&] { return ended_; })) return;
    context_.TryCancel();
    changed_.wait_for(lock, kFlushDeadline, [&] { return ended_; });  // longer only if a callback hangs
  }

  bool connected() const {
    const std::lock_guard lock(mutex_);
    return accepted_ && !ended_ && !closing_;
  }

  Clock::time_point heard() const { return heard_.load(); }

 private:
  void wait_for_acceptance(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    const bool answered = changed_.wait_until(lock, deadline, [&] { return accepted_ || ended_; });
    if (accepted_) return;
    closing_ = true;  // no connection was there to lose
    lock.unlock();
    context_.TryCancel();
    receiver_.join();
    const grpc::Status late(connected_ ? grpc::StatusCode::DEADLINE_EXCEEDED : grpc::StatusCode::UNAVAILABLE,
                            fmt::format("waited {} ms", options_.connect_deadline.count()));
    throw to_error(answered ? status_ : late, options_.address, "connecting");
  }

  void receive() {
    wire::Order order;
    while (stream_->Read(&order) && accept()) {
      heard_.store(Clock::now());
      if (!order.kind().empty() && options_.on_order) options_.on_order(from_wire(order));
    }
    if (finish() && options_.on_lost) options_.on_lost();
  }

  // Called at the first message: the server's certificate is known by then.
  bool accept() {
    const std::lock_guard lock(mutex_);
    if (accepted_) return true;
    accepted_ = has_role(*context_.auth_context(), options_.address, expected_role(options_.address));
    if (!accepted_) context_.TryCancel();
    changed_.notify_all();
    return accepted_;
  }

  // Returns true when the supervisor had accepted us and is lost.
  bool finish() {
    std::unique_lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !writing_; });  // at once: on an ended stream a write fails
    lock.unlock();
    grpc::Status status = stream_->Finish();
    lock.lock();
    // Before it has accepted us, a clean end is a refusal too.
    if (status.ok() && !accepted_) status = {grpc::StatusCode::UNAVAILABLE, "it ended the stream"};
    status_ = status;
    ended_ = true;
    changed_.notify_all();
    return accepted_ && !closing_;
  }

  void send() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !reports_.empty() || closing_ || ending_; });
      if (ending_) return;
      writing_ = true;
      const bool last = reports_.empty();
      const wire::Report report = last ? wire::Report() : to_wire(reports_.pop());
      lock.unlock();
      const bool sent = last ? stream_->WritesDone() : stream_->Write(report);
      lock.lock();
      writing_ = false;
      changed_.notify_all();
      if (last || !sent) return;
    }
  }

  const Options options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<wire::Control::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<wire::Report, wire::Order>> stream_;
  std::atomic<Clock::time_point> heard_{Clock::now()};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  ReportQueue reports_;
  grpc::Status status_;
  bool connected_ = false;          // when the stream began
  bool accepted_ = false;           // the supervisor has answered
  bool writing_ = false;            // the sender is inside gRPC
  bool closing_ = false;            // by us
  bool ending_ = false;             // nothing more comes
  bool ended_ = false;              // status_ is set
  std::jthread receiver_, sender_;  // last: they use all of the above
};

ControlClient::ControlClient(Options options) : state_(std::make_unique<State>(std::move(options))) {}

ControlClient::~ControlClient() = default;

void ControlClient::report(const WorkerReport& report) { state_->report(report); }

bool ControlClient::connected() const { return state_->connected(); }

Clock::time_point ControlClient::heard() const { return state_->heard(); }

void ControlClient::close() { state_->close(); }

CommandReply call_supervisor(const ControlAddress& address, const Command& command,
                             std::chrono::milliseconds deadline) {
  quiet_grpc();
  const std::unique_ptr<wire::Control::Stub> stub = wire::Control::NewStub(open_channel(address));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  wire::Reply reply;
  const grpc::Status status = stub->Call(&context, to_wire(command), &reply);
  if (!status.ok()) throw to_error(status, address, fmt::format("'{}'", command.name));
  return from_wire(reply);
}

}  // namespace distbelief::comm
