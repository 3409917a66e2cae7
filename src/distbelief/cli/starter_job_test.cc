#include "distbelief/cli/starter_job.h"

#include <gtest/gtest.h>

#include "distbelief/job/job_check.h"
#include "distbelief/job/job_file.h"

namespace distbelief::cli {
namespace {

TEST(StarterJob, IsAJobFileThatSaysWhatItFound) {
  data::Finding finding{.data_set = "csv", .kind = data::FindingKind::kFeatureClasses};
  finding.options = {{"target", std::string("y \"quoted\"")}, {"ignore", std::string("id")}};
  finding.notes = {"a table of 100 rows"};
  finding.samples = 100;
  const std::string text = starter_job(finding, "/some where/t.csv");
  EXPECT_NE(text.find("#   a table of 100 rows\n"), std::string::npos) << text;
  const Config config = job::parse_job(text, "job.toml");
  EXPECT_NO_THROW(job::validate(config));
  EXPECT_EQ(config.model.name, "mlp");
  EXPECT_EQ(config.data.name, "csv");
  EXPECT_EQ(config.data.path, "/some where/t.csv");
  EXPECT_EQ(config.data.options, finding.options);
}

TEST(StarterJob, KeepsWhatTheDataSayInTheirPlace) {
  data::Finding finding{.data_set = "csv", .kind = data::FindingKind::kFeatureClasses};
  const std::string hostile = "x\r\n[elastic]\ndiscovery = \"touch /tmp/never\"\n#\x1b\x7f";
  finding.options = {{"target", hostile}, {"ignore", std::string("Price\u00a0EUR\t\"'")}};
  finding.notes = {"packed slices of " + hostile, hostile};
  const Config config = job::parse_job(starter_job(finding, "/data/Caf\u00e9\u00a0\n"), "job.toml");
  EXPECT_EQ(config.elastic.discovery, "");
  EXPECT_EQ(config.data.options, finding.options);
  EXPECT_EQ(config.data.path, "/data/Caf\u00e9\u00a0\n");
  EXPECT_EQ(config.model.name, "mlp");
}

TEST(StarterJob, ChoosesAModelForTheKindAndSize) {
  const auto model = [](data::FindingKind kind, std::int64_t side) {
    data::Finding finding{.data_set = "x", .kind = kind};
    finding.side = side;
    return job::parse_job(starter_job(finding, "p"), "job.toml").model.name;
  };
  EXPECT_EQ(model(data::FindingKind::kTokens, 0), "gpt");
  EXPECT_EQ(model(data::FindingKind::kFeatureValues, 0), "mlp");
  EXPECT_EQ(model(data::FindingKind::kTrees, 0), "tree_lstm");
  EXPECT_EQ(model(data::FindingKind::kImages, 64), "cnn");
  EXPECT_EQ(model(data::FindingKind::kImages, 8), "mlp");
}

TEST(StarterJob, FitsBatchAndEpochsToTheSamples) {
  const auto job = [](std::uint64_t samples) {
    data::Finding finding{.data_set = "x"};
    finding.samples = samples;
    return job::parse_job(starter_job(finding, "p"), "job.toml").train;
  };
  EXPECT_EQ(job(0).batch_size, 4);
  EXPECT_EQ(job(10'000'000).epochs, 1);
  EXPECT_EQ(job(10'000'000).batch_size, 64);
  EXPECT_EQ(job(100).epochs, 20);
}

}  // namespace
}  // namespace distbelief::cli
