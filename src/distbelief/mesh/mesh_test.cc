#include "distbelief/mesh/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "distbelief/testing/refusal.h"

namespace distbelief::mesh {
namespace {

std::string mesh_refusal(const MeshWish& wish, int workers) {
  return testing::refusal([&] { resolve_mesh(wish, workers); });
}

TEST(Mesh, GivesEveryRankItsOwnPlaceAndBack) {
  for (int data = 1; data <= 3; ++data)
    for (int pipeline = 1; pipeline <= 4; ++pipeline)
      for (int tensor = 1; tensor <= 3; ++tensor) {
        const Mesh mesh{.data = data, .pipeline = pipeline, .tensor = tensor};
        ASSERT_EQ(mesh.workers(), data * pipeline * tensor);
        std::set<std::tuple<int, int, int>> seen;
        for (int rank = 0; rank < mesh.workers(); ++rank) {
          const MeshPlace place = place_of(mesh, rank);
          EXPECT_TRUE(place.data >= 0 && place.data < data);
          EXPECT_TRUE(place.pipeline >= 0 && place.pipeline < pipeline);
          EXPECT_TRUE(place.tensor >= 0 && place.tensor < tensor);
          EXPECT_EQ(rank_at(mesh, place), rank);
          seen.emplace(place.data, place.pipeline, place.tensor);
        }
        EXPECT_EQ(int(seen.size()), mesh.workers());
      }
}

TEST(Mesh, PutsTensorNeighboursNextToEachOtherThenPipelineThenData) {
  const Mesh mesh{.data = 2, .pipeline = 3, .tensor = 2};
  EXPECT_EQ(place_of(mesh, 1), (MeshPlace{.data = 0, .pipeline = 0, .tensor = 1}));
  EXPECT_EQ(place_of(mesh, 2), (MeshPlace{.data = 0, .pipeline = 1, .tensor = 0}));
  EXPECT_EQ(place_of(mesh, 6), (MeshPlace{.data = 1, .pipeline = 0, .tensor = 0}));
  EXPECT_EQ(place_of(mesh, 11), (MeshPlace{.data = 1, .pipeline = 2, .tensor = 1}));
}

TEST(Mesh, KnowsWhetherEveryHostHoldsTheWholeNetwork) {
  const auto hold_all = [](const Mesh& mesh, std::vector<int> workers) {
    return hosts_hold_all(mesh, workers);
  };
  EXPECT_TRUE(hold_all({.data = 3}, {2, 1}));
  EXPECT_TRUE(hold_all({.data = 2, .pipeline = 2}, {2, 2}));
  EXPECT_FALSE(hold_all({.data = 2, .pipeline = 2}, {3, 1}));
  EXPECT_FALSE(hold_all({.data = 1, .pipeline = 2}, {1, 1}));
  EXPECT_TRUE(
      hold_all({.data = 4, .pipeline = 1, .tensor = 2}, {3, 3, 2}));  // the second has half of two groups
  EXPECT_FALSE(hold_all({.data = 2, .pipeline = 2, .tensor = 2}, {6, 2}));
}

TEST(Mesh, KnowsWhetherPlacesLieAlike) {
  const auto alike = [](const Mesh& mesh, std::vector<int> workers) {
    return places_lie_alike(mesh, workers);
  };
  EXPECT_TRUE(alike({.data = 3}, {2, 1}));
  EXPECT_TRUE(alike({.data = 2, .pipeline = 2}, {2, 2}));
  EXPECT_TRUE(alike({.data = 3, .pipeline = 2}, {4, 2}));
  EXPECT_TRUE(alike({.data = 1, .pipeline = 2}, {1, 1}));
  EXPECT_FALSE(alike({.data = 2, .pipeline = 2}, {3, 1}));
  EXPECT_FALSE(alike({.data = 2, .pipeline = 1, .tensor = 2}, {1, 3}));
}

TEST(Mesh, FillsInDataFromTheWorkers) {
  EXPECT_EQ(resolve_mesh({}, 1), Mesh{});
  EXPECT_EQ(resolve_mesh({}, 5), (Mesh{.data = 5}));
  EXPECT_EQ(resolve_mesh({.pipeline = 2, .tensor = 2}, 12), (Mesh{.data = 3, .pipeline = 2, .tensor = 2}));
  EXPECT_EQ(resolve_mesh({.data = 2, .pipeline = 2}, 4), (Mesh{.data = 2, .pipeline = 2}));
}

TEST(Mesh, RefusesAReplicaThatDoesNotDivideTheWorkersWithWhatWould) {
  EXPECT_EQ(mesh_refusal({.pipeline = 3}, 4),
            "parallel.pipeline 3 x parallel.tensor 1 does not divide 4 workers; take 3 or 6 workers, or "
            "pipeline = 1, 2 or 4");
  EXPECT_EQ(
      mesh_refusal({.pipeline = 2, .tensor = 4}, 4),
      "parallel.pipeline 2 x parallel.tensor 4 does not divide 4 workers; take 8 workers, or pipeline = 1, "
      "or tensor = 1 or 2");
  EXPECT_EQ(
      mesh_refusal({.pipeline = 2, .tensor = 3}, 4),
      "parallel.pipeline 2 x parallel.tensor 3 does not divide 4 workers; take 6 workers, or tensor = 1 or "
      "2");
  EXPECT_EQ(
      mesh_refusal({.pipeline = 3, .tensor = 3}, 4),
      "parallel.pipeline 3 x parallel.tensor 3 does not divide 4 workers; take 9 workers, or pipeline x "
      "tensor = 1, 2 or 4");
}

TEST(Mesh, RefusesGivenNumbersThatAreNotTheWorkersWithWhatWould) {
  EXPECT_EQ(
      mesh_refusal({.data = 2, .pipeline = 2}, 6),
      "parallel.data 2 x parallel.pipeline 2 x parallel.tensor 1 is 4 workers, found 6; take 4 workers, or "
      "data = 3, or pipeline = 3");
  EXPECT_EQ(
      mesh_refusal({.data = 2, .pipeline = 2, .tensor = 2}, 4),
      "parallel.data 2 x parallel.pipeline 2 x parallel.tensor 2 is 8 workers, found 4; take 8 workers, or "
      "data = 1, or pipeline = 1, or tensor = 1");
  EXPECT_EQ(
      mesh_refusal({.data = 2, .pipeline = 2}, 5),
      "parallel.data 2 x parallel.pipeline 2 x parallel.tensor 1 is 4 workers, found 5; take 4 workers");
}

TEST(Mesh, WhatARefusalOffersIsAccepted) {
  EXPECT_EQ(mesh_refusal({.pipeline = 1, .tensor = 4}, 4), "accepted");
  EXPECT_EQ(mesh_refusal({.pipeline = 2, .tensor = 1}, 4), "accepted");
  EXPECT_EQ(mesh_refusal({.data = 2, .pipeline = 3}, 6), "accepted");
}

TEST(Mesh, RefusesNumbersOutOfRange) {
  EXPECT_EQ(mesh_refusal({.data = -1}, 4), "parallel.data must be from 0 (automatic) to 1000000; found -1");
  EXPECT_EQ(mesh_refusal({.pipeline = 0}, 4), "parallel.pipeline must be from 1 to 1000000; found 0");
  EXPECT_EQ(mesh_refusal({.tensor = 2'000'000'000}, 4),
            "parallel.tensor must be from 1 to 1000000; found 2000000000");
  EXPECT_NE(mesh_refusal({.data = 1'000'000, .pipeline = 1'000'000, .tensor = 1'000'000}, 4)
                .find("is 1000000000000000000 workers"),
            std::string::npos);
}

TEST(Replan, KeepsPipelineAndTensorWhenTheyDivideTheWorkers) {
  const MeshChange change = replan({.data = 2, .pipeline = 2, .tensor = 2}, 12);
  EXPECT_EQ(change.mesh, (Mesh{.data = 3, .pipeline = 2, .tensor = 2}));
  EXPECT_EQ(change.reason, "pipeline 2 x tensor 2 stays; 12 workers make data 3");
}

TEST(Replan, ShrinksThePipelineBeforeTensor) {
  const MeshChange change = replan({.pipeline = 4, .tensor = 2}, 6);
  EXPECT_EQ(change.mesh, (Mesh{.data = 1, .pipeline = 3, .tensor = 2}));
  EXPECT_EQ(change.reason,
            "pipeline 4 x tensor 2 does not divide 6 workers: now pipeline 3 x tensor 2, data 1");
  EXPECT_EQ(replan({.pipeline = 4}, 3).mesh, (Mesh{.pipeline = 3}));
  EXPECT_EQ(replan({.pipeline = 2, .tensor = 2}, 2).mesh, (Mesh{.tensor = 2}));
}

TEST(Replan, ShrinksTensorToADivisorOfWhatItWas) {
  EXPECT_EQ(replan({.pipeline = 2, .tensor = 2}, 3).mesh, (Mesh{.data = 3}));
  EXPECT_EQ(replan({.pipeline = 2, .tensor = 4}, 6).mesh, (Mesh{.data = 3, .pipeline = 1, .tensor = 2}));
  EXPECT_EQ(replan({.pipeline = 3, .tensor = 4}, 3).mesh, (Mesh{.data = 1, .pipeline = 3, .tensor = 1}));
}

TEST(Replan, FindsTheLargestMeshThatTheRulesAllowForAnyNumberOfWorkers) {
  for (int pipeline = 1; pipeline <= 6; ++pipeline)
    for (int tensor = 1; tensor <= 6; ++tensor)
      for (int workers = 1; workers <= 40; ++workers) {
        std::pair<int, int> best{0, 0};  // tensor, pipeline
        for (int t = 1; t <= tensor; ++t)
          for (int p = 1; p <= pipeline; ++p)
            if (tensor % t == 0 && workers % (t * p) == 0) best = std::max(best, {t, p});
        const MeshChange change = replan({.pipeline = pipeline, .tensor = tensor}, workers);
        EXPECT_EQ(std::pair(change.mesh.tensor, change.mesh.pipeline), best);
        EXPECT_EQ(change.mesh.workers(), workers);
        EXPECT_FALSE(change.reason.empty());
      }
}

}  // namespace
}  // namespace distbelief::mesh
