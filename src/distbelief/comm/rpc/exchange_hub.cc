#include "distbelief/comm/rpc/exchange_hub.h"

#include <spdlog/spdlog.h>

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

std::shared_ptr<SharedMemory> ExchangeHub::share(std::size_t bytes) {
  if (bytes == 0 || bytes > options_.shared_limit) return nullptr;
  if (shared_->fetch_add(bytes) + bytes > options_.shared_limit) {
    *shared_ -= bytes;
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
