#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "distbelief/server/client/client.h"
#include "distbelief/server/client/map_plan.h"
#include "distbelief/server/service/service.h"

namespace distbelief::testing {

// Real servers on Unix sockets in this process.
class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("db_service_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    exchanges_.clear();
    services_.clear();
    std::filesystem::remove_all(folder_);
  }

  void serve(int servers, std::size_t job_limit = std::size_t(-1)) {
    for (int i = 0; i < servers; ++i) add_server(job_limit);
    std::vector<server::ServerMap::Server> known;
    known.reserve(std::size_t(servers));
    for (int i = 0; i < servers; ++i) known.push_back({.id = i, .target = addresses_[std::size_t(i)].target});
    publish(server::first_map(known));
  }
  void add_server(std::size_t job_limit = std::size_t(-1), std::size_t memory_limit = std::size_t(-1)) {
    const int id = int(services_.size());
    services_.push_back(std::make_unique<server::Service>(
        server::Service::Options{.id = id,
                                 .logs = folder_ / "logs",
                                 .memory_limit = memory_limit,
                                 .job_limit = job_limit,
                                 .lease = lease_,
                                 .on_settled = [this](std::int64_t) { ++settled_; },
                                 .on_apart = [this](int, std::int64_t) { ++apart_; }}));
    addresses_.push_back({.target = "unix:" + (folder_ / std::to_string(id)).string()});
    exchanges_.push_back(std::make_unique<comm::ExchangeServer>(
        comm::ExchangeServer::Options{.address = addresses_.back(), .shared_limit = std::size_t{1} << 30},
        *services_.back()));
  }
  void publish(const server::ServerMap& map) {
    map_ = map;
    for (const auto& service : services_)
      if (service) service->set_map(map);
  }
  void await_settled(int reports) {
    for (int i = 0; i < 500 && settled_ < reports; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(settled_, reports);
    settled_ = 0;
  }
  // Carries out the plan until no step is left.
  void follow_plan(const std::set<int>& leaving, const std::function<void()>& meanwhile) {
    while (const auto step = server::next_step(map_, leaving)) {
      std::set<int> busy;
      for (const server::ServerMap::Part& part : step->map.parts)
        if (server::is_changing(part)) busy.insert(part.primary);
      publish(step->map);
      std::thread other(meanwhile);  // it may wait for a part in transfer
      if (!busy.empty()) await_settled(int(busy.size()));
      if (!busy.empty()) publish(server::with_settled(map_));
      other.join();
    }
  }
  // Simulates a killed process: its connections end and its data are lost.
  void lose_server(int id) {
    exchanges_[std::size_t(id)]->close();
    publish(server::without_server(map_, id));
    exchanges_[std::size_t(id)].reset();
    services_[std::size_t(id)].reset();
  }
  server::Client join(int replica, comm::SpaceSpec spec, std::int64_t incarnation = 1,
                      bool shares_memory = true) {
    return joined({.servers = addresses_,
                   .spec = std::move(spec),
                   .replica = replica,
                   .incarnation = incarnation,
                   .shares_memory = shares_memory});
  }
  // Joins as one of several clients of a replica, each with a share of the slices.
  server::Client join_share(int replica, comm::SpaceSpec spec, int share, int shares) {
    return joined({.servers = addresses_,
                   .spec = std::move(spec),
                   .replica = replica,
                   .share = share,
                   .shares = shares});
  }
  static server::Client joined(server::Client::Options options) {
    const std::vector<float> initial(options.spec.elements, 1.0F);
    options.deadline = std::chrono::seconds(20);
    const float* const brought = options.share == 0 ? initial.data() : nullptr;
    return server::Client(std::move(options), brought);
  }
  // Two parameters over slightly more than two slices.
  static comm::SpaceSpec spec(const std::string& mode) {
    const std::uint64_t elements = 2 * comm::kSliceElements + 1024;
    comm::SpaceSpec spec{
        .job = "test",
        .elements = elements,
        .parameters = {{.begin = 0, .count = 1000}, {.begin = 1024, .count = elements - 1024}},
        .mode = mode};
    spec.optimizer.momentum = 0;
    if (mode == "sync") spec.lanes = 2;
    if (mode != "sync") spec.tickets = 100;
    return spec;
  }

  std::filesystem::path folder_;
  std::chrono::milliseconds lease_{0};
  server::ServerMap map_;
  std::atomic<int> settled_{0};
  std::atomic<int> apart_{0};  // reports that a backup does not take its updates
  std::vector<comm::ControlAddress> addresses_;
  std::vector<std::unique_ptr<server::Service>> services_;
  std::vector<std::unique_ptr<comm::ExchangeServer>> exchanges_;
};

}  // namespace distbelief::testing
