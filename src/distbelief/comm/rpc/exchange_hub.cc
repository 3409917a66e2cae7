#include "distbelief/comm/rpc/exchange_hub.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <vector>

namespace distbelief::comm {

ExchangeHub::ExchangeHub(ExchangeServer::Options options, ExchangeServer::Handler& handler, Door& door)
    : options_(std::move(options)),
      handler_(handler),
      door_(door),
      last_connection_(options_.first_connection - 1) {}

ExchangeConnection* ExchangeHub::open(grpc::CallbackServerContext& context) {
  std::shared_ptr<ExchangeConnection> connection;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || connections_.size() >= std::size_t(options_.connections)) return nullptr;
    connection = std::make_shared<ExchangeConnection>(context, *this, ++last_connection_);
    connections_.emplace(last_connection_, connection);
  }
  connection->begin();
  return connection.get();
}

void ExchangeHub::leave(const ExchangeConnection& connection, bool greeted) {
  bool say = false;
  {
    const std::lock_guard lock(mutex_);
    connections_.erase(connection.peer().connection);
    say = greeted && !closed_;
  }
  if (say) handler_.gone(connection.peer().connection);
}

std::shared_ptr<SharedMemory> ExchangeHub::share(std::size_t bytes, const Peer& peer) {
  const std::size_t all = options_.shared_limit, of_one = std::min(all, options_.shared_limit_of_one);
  if (bytes == 0 || all == 0) return nullptr;
  const bool is_plausible = bytes <= of_one;
  const std::size_t before = is_plausible ? shared_->fetch_add(bytes) : shared_->load();
  if (is_plausible && before + bytes > all) *shared_ -= bytes;
  if (!is_plausible || before + bytes > all) {
    spdlog::warn(
        "exchange: {} {} (connection {}) wants {} bytes of shared memory and gets none: {} are in use of {}, "
        "of "
        "which one may have {}; what it sends goes over the socket",
        peer.role, peer.name, peer.connection, bytes, before, all, of_one);
    return nullptr;
  }
  try {
    return {new SharedMemory(bytes), [used = shared_, bytes](SharedMemory* memory) {
              delete memory;
              *used -= bytes;
            }};
  } catch (const Error& error) {
    *shared_ -= bytes;
    spdlog::warn("exchange: {}", error.what());
    return nullptr;
  }
}

void ExchangeHub::look() {
  std::vector<std::shared_ptr<ExchangeConnection>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, connection] : connections_) all.push_back(connection);
  }
  for (const std::shared_ptr<ExchangeConnection>& connection : all)
    connection->look(ExchangeConnection::Clock::now());
}

void ExchangeHub::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& [number, connection] : connections_)
    connection->finish_after_answers({grpc::StatusCode::UNAVAILABLE, "the server closes"});
}

ExchangeServer::Counts ExchangeHub::counts() const {
  return {.connections = accepted_, .turned_away = turned_away_, .dropped = dropped_, .requests = requests_};
}

}  // namespace distbelief::comm
