#include "distbelief/comm/rpc/control_server.h"

#include <fmt/format.h>
#include <proto/control.grpc.pb.h>
#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/door.h"
#include "distbelief/comm/rpc/messages.h"
#include "distbelief/comm/rpc/roster.h"
#include "distbelief/comm/rpc/transport.h"
#include "distbelief/comm/rpc/worker_stream.h"

namespace distbelief::comm {
namespace {

constexpr std::chrono::seconds kCloseDeadline{1};

// Streams run on gRPC's callback threads; each command, which may take long, on its own thread.
class Service final : public wire::Control::WithCallbackMethod_Work<wire::Control::Service> {
 public:
  Service(const ControlAddress& address, ControlServer::Handler& handler, Roster& roster, Door& door)
      : address_(address),
        handler_(handler),
        roster_(roster),
        door_(door) {}

  grpc::ServerBidiReactor<wire::Report, wire::Order>* Work(grpc::CallbackServerContext* context) override {
    for (const char* role : {"worker", "server"}) {
      if (!has_role(*context->auth_context(), address_, role)) continue;
      door_.prove(context->peer());
      return new WorkerStream(*context, roster_);
    }
    return new RefusedStream(
        {grpc::StatusCode::PERMISSION_DENIED, "the certificate is not a worker's or a server's"});
  }

  grpc::Status Call(grpc::ServerContext* context, const wire::Command* command, wire::Reply* reply) override {
    if (!has_role(*context->auth_context(), address_, "operator"))
      return {grpc::StatusCode::PERMISSION_DENIED, "the certificate is not an operator's"};
    door_.prove(context->peer());
    try {
      *reply = to_wire(handler_.command(from_wire(*command)));
    } catch (const std::exception& error) {
      *reply = to_wire(CommandReply{.ok = false, .text = error.what()});
    }
    return grpc::Status::OK;
  }

 private:
  const ControlAddress& address_;
  ControlServer::Handler& handler_;
  Roster& roster_;
  Door& door_;
};

}  // namespace

class ControlServer::State {
 public:
  State(const ControlAddress& address, Handler& handler)
      : address_(address),
        credentials_(server_credentials(address_)),
        door_(address_, {}),
        roster_(handler),
        service_(address_, handler, roster_, door_) {
    listen();
    heart_ = std::jthread([this](const std::stop_token& stop) { beat(stop); });
    pthread_setname_np(heart_.native_handle(), "db-heartbeat");
  }

  void close() {
    const std::lock_guard lock(closing_);
    if (!server_) return;
    heart_.request_stop();
    heart_.join();
    door_.close();
    roster_.close();
    server_->Shutdown(std::chrono::system_clock::now() + kCloseDeadline);
    server_.reset();
  }

  const std::string& target() const { return door_.target(); }
  Roster& roster() { return roster_; }

 private:
  void listen() {
    quiet_grpc();
    grpc::ServerBuilder builder;
    set_server_arguments(builder, address_);
    builder.RegisterService(&service_);
    server_ = door_.open(builder, credentials_);
  }

  void beat(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, stop, kHeartbeatInterval, [&] { return stop.stop_requested(); }))
      roster_.heartbeat();
  }

  const ControlAddress address_;
  const std::shared_ptr<grpc::ServerCredentials> credentials_;
  Door door_;
  Roster roster_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex closing_;
  std::jthread heart_;
};

ControlServer::ControlServer(const ControlAddress& address, Handler& handler)
    : state_(std::make_unique<State>(address, handler)) {}

ControlServer::~ControlServer() { close(); }

std::string ControlServer::target() const { return state_->target(); }

bool ControlServer::order(int generation, int rank, const WorkerOrder& order) {
  const wire::Order message = to_wire(order);
  if (order.kind.empty() || message.ByteSizeLong() > kMaxControlMessageBytes)
    throw Error(ErrorCode::kBadInput,
                fmt::format("an order has a kind and at most {} bytes; this one is '{}' with {} bytes",
                            kMaxControlMessageBytes, order.kind, message.ByteSizeLong()),
                {.rank = rank, .operation = "order"});
  return state_->roster().order(generation, rank, message);
}

void ControlServer::close() { state_->close(); }

}  // namespace distbelief::comm
