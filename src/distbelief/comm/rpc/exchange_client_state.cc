#include "distbelief/comm/rpc/exchange_client_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "distbelief/comm/rpc/exchange_greeting.h"
#include "distbelief/comm/rpc/exchange_settings.h"
#include "distbelief/comm/rpc/transport.h"

namespace distbelief::comm {
namespace {

using ExchangeClock = std::chrono::steady_clock;
constexpr std::chrono::seconds kWelcomeTime{1};
constexpr char kConnectMethod[] = "/distbelief.exchange.Exchange/Connect";

// Converts gRPC's status of a connection that failed to start to our error.
Error refusal(const grpc::Status& status, const ControlAddress& address) {
  const std::string reason = fmt::format("{}: {}", address.target, status.error_message());
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return {ErrorCode::kUnavailable,
              fmt::format("no server answers at {}; is it running{}?", reason,
                          socket_path(address).empty() ? ", and are both certificates of one CA" : "")};
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {ErrorCode::kTimeout, "the server did not answer in time at " + reason};
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::INVALID_ARGUMENT:
      return {ErrorCode::kBadInput, "the server refused the connection at " + reason};
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return {ErrorCode::kUnavailable, "the server refused the connection at " + reason};
    default: return {ErrorCode::kInternal, "the server could not be asked at " + reason};
  }
}

// Without shared memory payloads go over the stream.
std::unique_ptr<SharedMemory> open_shared(const SharedMemory::Place& place) {
  try {
    return std::make_unique<SharedMemory>(place);
  } catch (const Error& error) {
    spdlog::warn("exchange: {}; payloads go over the socket", error.what());
    return nullptr;
  }
}

ExchangeClient::Options completed(ExchangeClient::Options options) {
  if (options.address.expected_role.empty()) options.address.expected_role = "server";
  return options;
}

}  // namespace

ExchangeClient::State::State(Options options) : options_(completed(std::move(options))) { quiet_grpc(); }

ExchangeClient::State::~State() {
  if (socket_ >= 0) ::close(socket_);
}

void ExchangeClient::State::open_channel() {
  if (socket_path(options_.address).empty()) {
    channel_ = channel_to(options_.address, options_.insecure ? Wire::kPlain : Wire::kTls);
    return;
  }
  const int connected = connect_socket(options_.address, options_.connect_deadline);
  socket_ = fcntl(connected, F_DUPFD_CLOEXEC, 0);
  channel_ = channel_over(connected, options_.address);
}

void ExchangeClient::State::connect() {
  const auto deadline = ExchangeClock::now() + options_.connect_deadline;
  open_channel();
  // A channel over our own socket is connected, or never will be.
  const bool there = socket_ >= 0 ||
                     channel_->WaitForConnected(std::chrono::system_clock::now() + options_.connect_deadline);
  grpc::GenericStub(channel_).PrepareBidiStreamingCall(context_.get(), kConnectMethod, grpc::StubOptions(),
                                                       this);
  greet();
  // Without a connection the stream fails at once with the reason; allow time for that.
  wait_for_welcome(there ? std::max(deadline, ExchangeClock::now() + kWelcomeTime)
                         : ExchangeClock::now() + kWelcomeTime);
}

void ExchangeClient::State::greet() {
  const std::string header =
      encode(Hello{.role = options_.role, .name = options_.name, .shared_bytes = options_.shared_bytes});
  const Frame frame{.kind = FrameKind::kHello, .header_bytes = std::uint32_t(header.size())};
  AddHold();  // sends come from threads other than gRPC's
  StartRead(&incoming_);
  const std::lock_guard lock(mutex_);
  started_ = true;
  requests_.push_back({0, make_message(frame, header, std::span<const std::byte>{})});
  StartCall();
  go_on();
}

void ExchangeClient::State::wait_for_welcome(ExchangeClock::time_point deadline) {
  Lock lock(mutex_);
  const bool answered = changed_.wait_until(lock, deadline, [&] { return accepted_ || done_; });
  if (accepted_) return;
  closing_ = true;  // no connection was there to lose
  const grpc::Status late(grpc::StatusCode::DEADLINE_EXCEEDED,
                          fmt::format("waited {} ms", options_.connect_deadline.count()));
  const Error error = refusal(answered ? status_ : late, options_.address);
  const std::string broken = broken_;
  lock.unlock();
  close();
  if (!broken.empty())
    throw Error(ErrorCode::kBadInput, fmt::format("{}: {}", options_.address.target, broken));
  throw error;
}

// The server's certificate is known once its first message has come.
std::string ExchangeClient::State::accept(MessageReader& reader, const Frame& frame) {
  if (!options_.insecure &&
      !has_role(*context_->auth_context(), options_.address, options_.address.expected_role))
    return "its certificate is not a server's";
  std::string header(frame.header_bytes, '\0');
  reader.read(std::as_writable_bytes(std::span(header)));
  Welcome welcome;
  try {
    welcome = decode_welcome(header);
  } catch (const Error& error) {
    return "its welcome cannot be read: " + error.message();
  }
  if (welcome.memory.bytes > 0) memory_ = open_shared(welcome.memory);
  const std::lock_guard lock(mutex_);
  in_flight_ = std::max(1, std::min(options_.in_flight, welcome.in_flight));
  accepted_ = true;
  changed_.notify_all();
  return "";
}

void ExchangeClient::State::OnDone(const grpc::Status& status) {
  bool lost = false;
  {
    const std::lock_guard lock(mutex_);
    status_ = status;
    if (status.ok() && !accepted_) status_ = {grpc::StatusCode::UNAVAILABLE, "it ended the stream"};
    lost = accepted_ && !closing_;
    const std::string reason = !broken_.empty() ? broken_ : status_.error_message();
    for (const auto& [number, call] : calls_) {
      if (call->stage != Call::Stage::kWaiting) continue;
      call->stage = Call::Stage::kDone;
      call->failure.emplace(
          ErrorCode::kUnavailable,
          fmt::format("the connection to the server at {} is lost: {}", options_.address.target, reason));
    }
    calls_.clear();
    cut();
    context_.reset();
    ended_ = true;
    changed_.notify_all();
  }
  if (lost && options_.on_lost) options_.on_lost();
  const std::lock_guard lock(mutex_);  // held while notifying: the waiter may destroy this
  done_ = true;
  changed_.notify_all();
}

void ExchangeClient::State::cancel() {
  if (context_) context_->TryCancel();
}

void ExchangeClient::State::cut() {
  if (socket_ >= 0) shutdown(socket_, SHUT_RDWR);  // gRPC then releases our memory
}

void ExchangeClient::State::close() {
  Lock lock(mutex_);
  closing_ = true;
  if (!started_ || done_) return;
  cancel();
  changed_.wait(lock, [&] { return done_; });  // soon: a cancelled call ends
}

bool ExchangeClient::State::connected() const {
  const std::lock_guard lock(mutex_);
  return accepted_ && !ended_ && !closing_;
}

}  // namespace distbelief::comm
