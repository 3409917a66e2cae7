#pragma once

#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/comm/rpc/exchange_client.h"
#include "distbelief/comm/rpc/exchange_server.h"
#include "distbelief/testing/test_supervisor.h"

namespace distbelief::testing {

// Answers by header: "echo" returns the payload, "sum" returns the sum of its bytes as header, "keep" stores
// the request for later, "drop" never answers, "refuse" returns an error.
class EchoHandler final : public comm::ExchangeServer::Handler {
 public:
  void handle(comm::ExchangeServer::Request request) override {
    if (request.header() == "keep") return kept.put(std::move(request));
    if (request.header() == "drop") return;
    if (request.header() == "refuse") return request.refuse(ErrorCode::kBadInput, "no such key");
    const std::span<const std::byte> payload = request.payload();
    if (request.header() == "sum") return request.answer(std::to_string(sum(payload)));
    const std::span<std::byte> answer = request.reserve(payload.size());
    if (!payload.empty()) std::memcpy(answer.data(), payload.data(), payload.size());
    request.answer(request.header());
  }
  void gone(std::uint64_t connection) override { lost.put(connection); }

  static long sum(std::span<const std::byte> bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), 0L,
                           [](long so_far, std::byte byte) { return so_far + std::to_integer<long>(byte); });
  }

  Mailbox<comm::ExchangeServer::Request> kept;
  Mailbox<std::uint64_t> lost;
};

inline std::vector<std::byte> some_bytes(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = std::byte((i * 2654435761u + seed * 97u) >> 13);
  return bytes;
}

enum class ExchangeWay { kUnix, kShared, kTls, kPlainTcp };

inline const char* name_of(ExchangeWay way) {
  constexpr std::array kNames{"Unix", "Shared", "Tls", "PlainTcp"};
  return kNames[std::size_t(way)];
}

// A server address and the options to reach it.
class ExchangePlace {
 public:
  explicit ExchangePlace(ExchangeWay way) : way_(way) {
    if (way == ExchangeWay::kTls) comm::make_certificates(scratch_.path(), std::chrono::days(1));
  }

  comm::ExchangeServer::Options server() const {
    comm::ExchangeServer::Options options{.address = address("server", listening()),
                                          .insecure = way_ == ExchangeWay::kPlainTcp};
    if (way_ == ExchangeWay::kShared) options.shared_limit = kShared;
    return options;
  }
  comm::ExchangeClient::Options client(const std::string& target) const {
    comm::ExchangeClient::Options options{
        .address = address("worker", target), .name = "worker 3", .insecure = way_ == ExchangeWay::kPlainTcp};
    if (way_ == ExchangeWay::kShared) options.shared_bytes = kShared;
    return options;
  }
  comm::ControlAddress address(const std::string& role, const std::string& target) const {
    return way_ == ExchangeWay::kTls ? comm::secure_address(target, scratch_.path(), role)
                                     : comm::ControlAddress{.target = target};
  }
  std::string listening() const {
    const bool tcp = way_ == ExchangeWay::kTls || way_ == ExchangeWay::kPlainTcp;
    return tcp ? "localhost:0" : "unix:" + (scratch_.path() / "server").string();
  }
  const std::filesystem::path& folder() const { return scratch_.path(); }

  static constexpr std::size_t kShared = 8 << 20;

 private:
  ExchangeWay way_;
  ScratchFolder scratch_;
};

}  // namespace distbelief::testing
