#include "distbelief/mesh/replica_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/comm/link_communicator.h"
#include "distbelief/testing/thread_link.h"

namespace distbelief::mesh {
namespace {

constexpr int kWorkers = 3;
constexpr ReplicaWindow::Shape kShape{.workers = kWorkers,
                                      .parameters = 3,
                                      .elements = 70,
                                      .lane_values = 5,
                                      .note_values = 2,
                                      .lanes = 3,
                                      .slices = 4};

bool all_are(std::span<const float> part, float value) {
  return std::ranges::all_of(part, [&](float each) { return each == value; });
}

// Runs `body` on all workers of a replica, as threads.
void on_all_workers(const std::function<void(comm::HostCommunicator&, ReplicaWindow&)>& body) {
  constexpr std::chrono::seconds kDeadline{30};
  testing::ThreadHub hub;
  std::vector<std::jthread> workers;
  for (int rank = 0; rank < kWorkers; ++rank)
    workers.emplace_back([&, rank] {
      auto link = std::make_unique<testing::ThreadLink>(hub, rank, kWorkers, kDeadline);
      comm::HostCommunicator host(
          std::make_unique<comm::LinkCommunicator>(std::move(link), comm::Algorithm::kDirect), kDeadline);
      ReplicaWindow window(host, kShape);
      body(host, window);
    });
}

TEST(ReplicaWindow, BeginsWithZerosAndNoPartLiesInAnother) {
  on_all_workers([](comm::HostCommunicator& host, ReplicaWindow& window) {
    std::vector<std::span<float>> parts{window.mean(), window.gradient(), window.parameters(), window.rows()};
    for (int worker = 0; worker < kWorkers; ++worker)
      for (std::int64_t lane = 0; lane < kShape.lanes; ++lane) parts.push_back(window.notes(worker, lane));
    for (const std::span<float> part : parts) EXPECT_TRUE(all_are(part, 0));
    window.meet();
    if (host.rank() == 1) {
      window.step() = 77;
      std::ranges::fill(window.versions(), 78);
      std::ranges::fill(window.answers(), 79);
      std::ranges::fill(window.touched(), std::uint8_t{1});
      for (std::size_t i = 0; i < parts.size(); ++i) std::ranges::fill(parts[i], float(i + 2));
    }
    window.meet();
    for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_TRUE(all_are(parts[i], float(i + 2))) << i;
    EXPECT_TRUE(std::ranges::all_of(window.touched(), [](std::uint8_t each) { return each == 1; }));
    EXPECT_EQ(window.step(), 77);
    EXPECT_EQ(std::ranges::count(window.versions(), 78), kWorkers);
    EXPECT_EQ(std::ranges::count(window.answers(), 79), 4);
  });
}

TEST(ReplicaWindow, WhatEachWroteIsThereForAllWhoMet) {
  on_all_workers([](comm::HostCommunicator& host, ReplicaWindow& window) {
    for (int round = 0; round < 200; ++round) {
      window.gradient()[std::size_t(host.rank())] = float(round);
      window.meet();
      EXPECT_TRUE(all_are(window.gradient().first(kWorkers), float(round)));
      window.meet();
    }
  });
}

TEST(ReplicaWindow, RowsOfLanesFollowOneAnother) {
  on_all_workers([](comm::HostCommunicator&, ReplicaWindow& window) {
    EXPECT_EQ(window.rows().size(), 15u);
    EXPECT_EQ(window.row(2).data(), window.rows().data() + 10);
    EXPECT_EQ(window.row(2).size(), 5u);
  });
}

TEST(ReplicaWindow, AWorkerThatFailsIsNotWaitedFor) {
  on_all_workers([](comm::HostCommunicator& host, ReplicaWindow& window) {
    if (host.rank() == 0)
      host.domain().abort().set(0, "injected");
    else
      EXPECT_THROW(window.meet(), Error);
  });
}

TEST(ReplicaWindow, OfANetworkThatIsWholeHasNoRoomForOne) {
  ReplicaWindow::Shape whole = kShape;
  whole.elements = 0;
  EXPECT_GE(ReplicaWindow::bytes_needed(kShape), ReplicaWindow::bytes_needed(whole) + 2 * 70 * sizeof(float));
}

}  // namespace
}  // namespace distbelief::mesh
