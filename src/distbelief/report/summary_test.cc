#include "distbelief/report/summary.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief::report {
namespace {

using Json = nlohmann::json;

Summary sample() {
  Summary summary;
  summary.steps = 938;
  summary.test_accuracy = 0.905;
  summary.weights_sha256 = "abc";
  summary.phase_seconds = {1, 2, 3, 4, 5, 6};
  summary.per_worker.push_back({.rank = 1,
                                .pid = 4711,
                                .host = "node1",
                                .lanes = {2, 3},
                                .stages = {1},
                                .parameters = 10,
                                .bytes_held = 160,
                                .peak_rss_bytes = 1 << 20,
                                .phase_seconds = {}});
  return summary;
}

TEST(Summary, HoldsEveryPromisedKey) {
  const Json json = to_json(sample());
  for (const char* key : {"status",
                          "steps",
                          "epochs",
                          "samples",
                          "final_train_loss",
                          "test_accuracy",
                          "test_loss",
                          "best_test_accuracy",
                          "samples_per_second",
                          "wall_seconds",
                          "workers",
                          "lanes",
                          "threads",
                          "data",
                          "pipeline",
                          "tensor",
                          "zero",
                          "cuts",
                          "schedule",
                          "chunks",
                          "recompute",
                          "parameters",
                          "weights_sha256",
                          "generations",
                          "recoveries",
                          "snapshot_seconds",
                          "peak_rss_bytes",
                          "reproducible",
                          "reproducible_note",
                          "algorithm",
                          "overlap",
                          "hidden_exchange_share",
                          "isa",
                          "libtorch_version",
                          "mpi_version",
                          "step_seconds_median",
                          "phase_seconds",
                          "per_worker"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json.at("steps"), 938);
  EXPECT_EQ(json.at("status"), "done");
  EXPECT_EQ(json.at("generations"), 1);
  EXPECT_EQ(json.at("recoveries"), 0);
}

TEST(Summary, DescribesEachWorker) {
  const Json worker = to_json(sample()).at("per_worker").at(0);
  EXPECT_EQ(worker.at("pid"), 4711);
  EXPECT_EQ(worker.at("host"), "node1");
  EXPECT_EQ(worker.at("lanes"), Json({2, 3}));
  EXPECT_EQ(worker.at("stages"), Json({1}));
  EXPECT_EQ(worker.at("bytes_held"), 160);
  EXPECT_EQ(worker.at("phase_seconds").at("data"), 0.0);
}

TEST(Summary, NamesPhasesAndLeavesTheUnknownEmpty) {
  const Json json = to_json(sample());
  EXPECT_EQ(json.at("phase_seconds").at("exchange"), 4.0);
  EXPECT_EQ(json.at("test_accuracy"), 0.905);
  EXPECT_TRUE(json.at("test_loss").is_null());
}

TEST(WriteJson, ReplacesTheFileAsAWhole) {
  const ScratchFolder folder;
  const auto path = folder.path() / "summary.json";
  write_json_atomically(
      path, {{"loss", std::numeric_limits<double>::quiet_NaN()}, {"filler", std::string(1000, 'x')}});
  write_json_atomically(path, {{"steps", 1}});
  EXPECT_EQ(read_text(path), "{\n  \"steps\": 1\n}\n");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(WriteJson, NamesTheFileThatCannotBeWrittenAndLeavesNothing) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder.path() / "summary.json");
  try {
    write_json_atomically(folder.path() / "summary.json", {{"steps", 1}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_NE(error.message().find("summary.json: Is a directory"), std::string::npos) << error.message();
  }
  EXPECT_EQ(folder.entries(), 1u);
}

}  // namespace
}  // namespace distbelief::report
