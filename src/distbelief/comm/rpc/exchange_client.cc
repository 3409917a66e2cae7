#include "distbelief/comm/rpc/exchange_client.h"

#include <utility>

#include "distbelief/comm/rpc/exchange_client_state.h"

namespace distbelief::comm {

ExchangeClient::ExchangeClient(Options options) : state_(std::make_shared<State>(std::move(options))) {
  state_->connect();
}

ExchangeClient::~ExchangeClient() { close(); }

std::span<std::byte> ExchangeClient::shared() const { return state_->shared(); }

bool ExchangeClient::connected() const { return state_->connected(); }

void ExchangeClient::close() { state_->close(); }

ExchangeClient::Pending ExchangeClient::send(std::string header, std::span<const std::byte> payload,
                                             std::span<std::byte> into) {
  return {state_, state_->send(header, payload, into)};
}

ExchangeClient::Pending::Pending(std::shared_ptr<State> state, std::shared_ptr<Call> call)
    : state_(std::move(state)),
      call_(std::move(call)) {}

ExchangeClient::Pending& ExchangeClient::Pending::operator=(Pending&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(call_, other.call_);
  return *this;
}

ExchangeClient::Pending::~Pending() {
  if (call_) state_->abandon(*call_);
}

bool ExchangeClient::Pending::ready() const { return call_ && state_->ready(*call_); }

bool ExchangeClient::Pending::ready_within(std::chrono::milliseconds time) {
  return call_ && state_->ready_within(*call_, time);
}

Answer ExchangeClient::Pending::wait(std::chrono::milliseconds deadline) {
  const std::shared_ptr<Call> call = std::move(call_);
  DISTBELIEF_INVARIANT(call != nullptr);
  return state_->wait(*call, deadline);
}

}  // namespace distbelief::comm
