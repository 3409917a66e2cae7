#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/comm/rpc/exchange_client.h"
#include "distbelief/server/service/service.h"

namespace distbelief::testing {

inline constexpr std::size_t kHostileElements = 1000;

// A peer that sends arbitrary messages.
class TestPeer {
 public:
  using Kind = comm::StoreRequest::Kind;
  TestPeer(const std::string& target, const std::string& role, const std::string& name = "mallory")
      : client_({.address = {.target = target},
                 .role = role,
                 .name = name,
                 .shared_bytes = role == "worker" ? std::size_t{1} << 20 : 0}) {}

  comm::ExchangeClient::Pending send(const comm::StoreRequest& message, std::span<const std::byte> payload,
                                     std::span<std::byte> into = {}) {
    return client_.send(comm::encode(message), payload, into);
  }
  comm::StoreAnswer ask(const comm::StoreRequest& message, std::span<const std::byte> payload,
                        std::span<std::byte> into = {}) {
    return comm::decode_answer(
        client_.send(comm::encode(message), payload, into).wait(std::chrono::seconds(20)).header);
  }
  comm::StoreAnswer open(const comm::SpaceSpec& spec) {
    const std::string text = comm::encode(spec);
    return ask({.kind = Kind::kOpen}, std::as_bytes(std::span(text)));
  }
  std::span<std::byte> shared() { return client_.shared(); }

 private:
  comm::ExchangeClient client_;
};

// A server with three peers: an honest worker, a hostile worker and another server.
class HostileServiceTest : public ::testing::Test {
 protected:
  using Kind = comm::StoreRequest::Kind;

  void serve(const std::string& mode) {
    mode_ = mode;
    const std::string target = "unix:" + (scratch_.path() / "server").string();
    service_ = std::make_unique<server::Service>(
        server::Service::Options{.id = 0,
                                 .logs = scratch_.path() / "logs",
                                 .memory_limit = std::size_t{64} << 20,
                                 .refusals = {.at_once = at_once_, .delay = std::chrono::milliseconds(100)}});
    exchange_ = std::make_unique<comm::ExchangeServer>(
        comm::ExchangeServer::Options{.address = {.target = target}, .shared_limit = std::size_t{1} << 30},
        *service_);
    service_->set_map(server::first_map({{.id = 0, .target = target}}));
    honest_ = std::make_unique<TestPeer>(target, "worker");
    space_ = honest_->open(spec()).space;
    const std::vector<float> ones(kHostileElements, 1);
    honest_->ask({.kind = Kind::kFill, .space = space_}, bytes(ones));
    mallory_ = std::make_unique<TestPeer>(target, "worker");
    server_ = std::make_unique<TestPeer>(target, "server", "server 1");
  }
  void TearDown() override {
    honest_.reset();
    mallory_.reset();
    server_.reset();
    exchange_.reset();
    service_.reset();
  }
  comm::SpaceSpec spec() const {
    comm::SpaceSpec spec{.job = "test",
                         .elements = kHostileElements,
                         .parameters = {{.begin = 0, .count = 500}, {.begin = 500, .count = 500}},
                         .mode = mode_};
    spec.optimizer.momentum = 0;
    spec.lanes = mode_ == "sync" ? 2 : 1;
    spec.spare_lanes = spare_lanes_;
    spec.lane_values = 3;
    spec.tickets = mode_ == "sync" ? 0 : 1000;
    return spec;
  }
  static std::span<const std::byte> bytes(const std::vector<float>& values) {
    return std::as_bytes(std::span(values));
  }
  std::vector<float> values() {
    std::vector<float> found(kHostileElements);
    honest_->ask({.kind = Kind::kPull, .space = space_}, {}, std::as_writable_bytes(std::span(found)));
    return found;
  }
  std::string log() const {
    std::ostringstream text;
    text << std::ifstream(scratch_.path() / "logs" / "0-server0.jsonl").rdbuf();
    return text.str();
  }
  comm::StoreRequest push(std::int64_t ticket) const {
    return {.kind = Kind::kPush, .space = space_, .replica = 1, .incarnation = 1, .ticket = ticket, .lr = 1};
  }
  // Expects kBadInput from `offence`, and unchanged values and logs.
  void expect_refused(const std::string& what, const std::function<void()>& offence) {
    const std::int64_t refused = service_->refused();
    const std::string log_before = log();
    const std::vector<float> before = values();
    try {
      offence();
      ADD_FAILURE() << what << ": not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput) << what << ": " << error.message();
    }
    EXPECT_EQ(service_->refused(), refused + 1) << what;
    EXPECT_EQ(log(), log_before) << what;
    EXPECT_EQ(values(), before) << what;
  }

  const ScratchFolder scratch_;
  int at_once_ = 1 << 20;
  std::int64_t spare_lanes_ = 0;
  std::string mode_;
  std::unique_ptr<server::Service> service_;
  std::unique_ptr<comm::ExchangeServer> exchange_;
  std::unique_ptr<TestPeer> honest_, mallory_, server_;
  std::uint64_t space_ = 0;
};

}  // namespace distbelief::testing
