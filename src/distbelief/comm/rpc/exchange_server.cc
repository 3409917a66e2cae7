#include "distbelief/comm/rpc/exchange_server.h"

#include <proto/exchange.grpc.pb.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "distbelief/comm/rpc/door.h"
#include "distbelief/comm/rpc/exchange_hub.h"
#include "distbelief/comm/rpc/exchange_settings.h"
#include "distbelief/comm/rpc/transport.h"

namespace distbelief::comm {
namespace {

constexpr std::chrono::milliseconds kLookInterval{100};
constexpr std::chrono::seconds kExchangeCloseDeadline{1};

using RawReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

class TurnedAway final : public RawReactor {
 public:
  TurnedAway() {
    Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "the server has no room for another connection"});
  }

 private:
  void OnDone() override { delete this; }
};

class ExchangeService final
    : public exchange::Exchange::WithRawCallbackMethod_Connect<exchange::Exchange::Service> {
 public:
  explicit ExchangeService(ExchangeHub& hub) : hub_(hub) {}

  RawReactor* Connect(grpc::CallbackServerContext* context) override {
    if (ExchangeConnection* connection = hub_.open(*context)) return connection;
    hub_.count_turned_away();
    spdlog::warn("exchange: {} is turned away: there are {} connections, or the server closes",
                 context->peer(), hub_.options().connections);
    return new TurnedAway;
  }

 private:
  ExchangeHub& hub_;
};

}  // namespace

class ExchangeServer::State {
 public:
  State(Options options, Handler& handler)
      : credentials_(exchange_credentials(options)),
        door_(options.address, options.admission),
        hub_(std::move(options), handler, door_),
        service_(hub_) {
    quiet_grpc();
    grpc::ServerBuilder builder;
    set_exchange_arguments(builder, hub_.options());
    builder.RegisterService(&service_);
    server_ = door_.open(builder, credentials_);
    watch_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
    pthread_setname_np(watch_.native_handle(), "db-exch-watch");
  }

  void close() {
    const std::lock_guard lock(closing_);
    if (!server_) return;
    watch_.request_stop();
    watch_.join();
    door_.close();
    hub_.close();
    server_->Shutdown(std::chrono::system_clock::now() + kExchangeCloseDeadline);
    server_.reset();
  }

  const std::string& target() const { return door_.target(); }
  const ExchangeHub& hub() const { return hub_; }

 private:
  void watch(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, stop, kLookInterval, [&] { return stop.stop_requested(); })) hub_.look();
  }

  const std::shared_ptr<grpc::ServerCredentials> credentials_;
  Door door_;
  ExchangeHub hub_;
  ExchangeService service_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex closing_;
  std::jthread watch_;
};

ExchangeServer::ExchangeServer(Options options, Handler& handler)
    : state_(std::make_unique<State>(std::move(options), handler)) {}

ExchangeServer::~ExchangeServer() { close(); }

std::string ExchangeServer::target() const { return state_->target(); }

ExchangeServer::Counts ExchangeServer::counts() const { return state_->hub().counts(); }

void ExchangeServer::close() { state_->close(); }

}  // namespace distbelief::comm
