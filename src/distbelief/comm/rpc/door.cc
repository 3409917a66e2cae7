#include "distbelief/comm/rpc/door.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/listening.h"
#include "distbelief/comm/rpc/transport.h"

namespace distbelief::comm {
namespace {

// How long a connected client may be silent.
constexpr std::chrono::seconds kSilence{5};
// How often to check for turns and silent clients while any client waits.
constexpr int kLookMs = 20;
constexpr int kIdleMs = 1000;
// At a time, so that waiting clients get their turns in between.
constexpr int kMostReceived = 64;

}  // namespace

Door::Door(const ControlAddress& address, const Admission::Options& options)
    : address_(address),
      listeners_(listen_at(address, target_)),
      waker_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      admission_(options) {}

Door::~Door() {
  close();
  ::close(waker_);
}

std::unique_ptr<grpc::Server> Door::open(grpc::ServerBuilder& builder,
                                         const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(Type::FROM_FD, credentials);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("address {}: no server can be started there; is the certificate that of the key?",
                            address_.target));
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  pthread_setname_np(thread_.native_handle(), "db-door");
  return server;
}

void Door::close() {
  thread_.request_stop();
  wake();
  if (thread_.joinable()) thread_.join();
  for (const auto& [visitor, since] : std::exchange(visitors_, {})) ::close(visitor);
  const std::string path = socket_path(address_);
  if (!listeners_.empty() && !path.empty()) unlink(path.c_str());
  for (const int listener : std::exchange(listeners_, {})) ::close(listener);
}

void Door::wake() const { eventfd_write(waker_, 1); }

void Door::prove(const std::string& peer) {
  {
    const std::lock_guard lock(mutex_);
    admission_.prove(source_of(peer));
  }
  wake();  // a turn has come back
}

void Door::offend(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  admission_.offend(source_of(peer));
}

void Door::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    wait();
    admit();
  }
}

// All clients of a Unix socket are one source; when its queue is full, further ones wait in the kernel's
// backlog.
bool Door::has_room() const { return !is_on_this_host(address_) || !admission_.is_full("unix"); }

void Door::wait() {
  std::vector<pollfd> watched{{.fd = waker_, .events = POLLIN, .revents = 0}};
  const bool receives = [&] {
    const std::lock_guard lock(mutex_);
    return has_room();
  }();
  if (receives)
    for (const int listener : listeners_) watched.push_back({.fd = listener, .events = POLLIN, .revents = 0});
  const std::size_t first = watched.size();
  for (const auto& [visitor, since] : visitors_)
    watched.push_back(
        {.fd = visitor, .events = short(since.speaks ? POLLRDHUP : POLLIN | POLLRDHUP), .revents = 0});
  if (poll(watched.data(), watched.size(), visitors_.empty() ? kIdleMs : kLookMs) < 0) return;
  eventfd_t count{};
  if (watched[0].revents != 0) eventfd_read(waker_, &count);
  for (std::size_t i = first; i < watched.size(); ++i) look_at(watched[i].fd, watched[i].revents);
  for (std::size_t i = 1; i < first; ++i)
    if (watched[i].revents != 0) receive(watched[i].fd);
}

void Door::look_at(int visitor, short events) {
  if ((events & (POLLRDHUP | POLLHUP | POLLERR)) != 0) return send_away(visitor);
  Visitor& found = visitors_.at(visitor);
  if ((events & POLLIN) != 0) found.speaks = true;
  if (!found.speaks && Clock::now() - found.came > kSilence) send_away(visitor);
}

void Door::send_away(int visitor) {
  {
    const std::lock_guard lock(mutex_);
    admission_.leave(visitor);
  }
  visitors_.erase(visitor);
  ::close(visitor);
}

void Door::receive(int listener) {
  for (int i = 0; i < kMostReceived; ++i) {
    const int visitor = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (visitor < 0 && (errno == EMFILE || errno == ENFILE)) poll(nullptr, 0, kLookMs);  // stays readable
    if (visitor < 0) return;
    const std::string source = source_of(visitor);
    visitors_.emplace(visitor, Visitor{.came = Clock::now()});
    std::optional<int> refused;
    bool goes_on = true;
    {
      const std::lock_guard lock(mutex_);
      refused = admission_.arrive(source, visitor);
      goes_on = has_room();
    }
    if (refused) {
      send_away(*refused);
      if (std::has_single_bit(++refused_))
        spdlog::warn("{}: {} clients were sent away so far, too many wait; the last came from {}", target_,
                     refused_, source);
    }
    if (!goes_on) return;
  }
}

void Door::admit() {
  const auto speaks = [this](int visitor) { return visitors_.at(visitor).speaks; };
  for (;;) {
    std::optional<int> visitor;
    {
      const std::lock_guard lock(mutex_);
      visitor = admission_.next(Clock::now(), speaks);
    }
    if (!visitor) return;
    visitors_.erase(*visitor);
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = *visitor;
    acceptor_->HandleNewConnection(&connection);  // gRPC owns the socket now
  }
}

}  // namespace distbelief::comm
