#include "distbelief/server/client/close_job.h"

#include <spdlog/spdlog.h>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange_client.h"
#include "distbelief/comm/rpc/store.h"
#include "distbelief/server/client/server_map.h"

namespace distbelief::server {
namespace {

constexpr std::chrono::seconds kCloseAnswer{5};

comm::ExchangeClient connect(comm::ControlAddress address, const std::string& target) {
  address.target = target;
  return comm::ExchangeClient(
      {.address = std::move(address), .name = "owner", .connect_deadline = kCloseAnswer});
}

ServerMap map_from(const comm::ControlAddress& address) {
  comm::ExchangeClient client = connect(address, address.target);
  std::string text(comm::kMaxHeaderBytes, ' ');
  const comm::Answer answer =
      client
          .send(comm::encode(comm::StoreRequest{.kind = comm::StoreRequest::Kind::kMap}), {},
                std::as_writable_bytes(std::span(text)))
          .wait(kCloseAnswer);
  text.resize(answer.bytes);
  return map_from_text(text);
}

}  // namespace

ServerMap find_map(const std::vector<comm::ControlAddress>& servers) {
  std::string why;
  for (const comm::ControlAddress& server : servers) try {
      return map_from(server);
    } catch (const Error& error) {
      why = error.what();
    }
  throw Error(ErrorCode::kUnavailable, "no parameter server says who has the parameters: " + why);
}

void close_job(const std::vector<comm::ControlAddress>& servers, const std::string& job) {
  const ServerMap map = find_map(servers);
  const std::string header =
      comm::encode(comm::StoreRequest{.kind = comm::StoreRequest::Kind::kClose, .job = job});
  for (const ServerMap::Server& server : map.servers) try {
      comm::ExchangeClient client = connect(servers.front(), server.target);
      client.send(header, {}, {}).wait(kCloseAnswer);
    } catch (const Error& error) {  // a lost server has nothing any more
      spdlog::info("server {}: {}", server.id, error.what());
    }
}

}  // namespace distbelief::server
