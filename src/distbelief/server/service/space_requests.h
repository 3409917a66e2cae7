#pragma once

#include <span>
#include <string>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange_server.h"
#include "distbelief/comm/rpc/store.h"

// Access to requests for the sources of the job state.
namespace distbelief::server {

inline void answer(comm::ExchangeServer::Request& request, const comm::StoreAnswer& answer) {
  request.answer(comm::encode(answer));
}

inline std::span<const float> floats_in(const comm::ExchangeServer::Request& request) {
  const std::span<const std::byte> bytes = request.payload();
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// Call before anything changes: an answer given later, on another request's thread, must find its room.
inline void require_room(const comm::ExchangeServer::Request& request, std::size_t floats) {
  if (request.room() < floats * sizeof(float))
    throw Error(ErrorCode::kBadInput, "an answer of " + std::to_string(floats * sizeof(float)) +
                                          " bytes, but the client has room for " +
                                          std::to_string(request.room()));
}

inline float* room_for(comm::ExchangeServer::Request& request, std::size_t floats) {
  return reinterpret_cast<float*>(request.reserve(floats * sizeof(float)).data());
}

}  // namespace distbelief::server
