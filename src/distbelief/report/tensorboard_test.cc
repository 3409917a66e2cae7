#include "distbelief/report/tensorboard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

#include "distbelief/base/scratch_folder.h"

namespace distbelief::report {
namespace {

TEST(TensorBoard, RecordHasLengthAndMaskedChecksums) {
  const std::string record = tensorboard_record("123456789");
  ASSERT_EQ(record.size(), 8 + 4 + 9 + 4U);
  EXPECT_EQ(record[0], 9);
  // CRC-32C of "123456789" is e3069283; masked: rotated right by 15, plus a282ead8.
  std::uint32_t found = 0;
  std::memcpy(&found, record.data() + 21, 4);
  const std::uint32_t crc = 0xe3069283;
  EXPECT_EQ(found, (crc >> 15 | crc << 17) + 0xa282ead8U);
}

TEST(TensorBoard, ScalarIsTheMessageThatTensorBoardReads) {
  // Event {wall_time: 1.0, step: 300, summary {value {tag: "a/b" simple_value: 0.5}}}
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\xac\x02\x2a\x0c\x0a\x0a\x0a\x03"
      "a/b\x15\x00\x00\x00\x3f",
      26);
  EXPECT_EQ(scalar_event(1.0, 300, "a/b", 0.5F), expected);
}

TEST(TensorBoard, FileIsMadeAnewAndThenFollows) {
  const ScratchFolder scratch;
  const auto line = [&](const char* text) {
    std::ofstream(scratch.path() / "metrics.jsonl", std::ios::app) << text << "\n";
  };
  const auto files = [&] {
    std::vector<std::uintmax_t> sizes;
    for (const auto& entry : std::filesystem::directory_iterator(scratch.path() / "tensorboard"))
      sizes.push_back(entry.file_size());
    return sizes;
  };
  line(R"({"step": 1, "loss": 2.0, "unix_seconds": 1700000000.5})");
  TensorBoardFile first(scratch.path());
  first.read_new();
  const auto before = files();
  ASSERT_EQ(before.size(), 1U);
  line(R"({"step": 2, "loss": 1.0, "unix_seconds": 1700000001.5})");
  first.read_new();
  ASSERT_GT(files().at(0), before[0]);
  const auto whole = files();
  TensorBoardFile second(scratch.path());
  second.read_new();
  EXPECT_EQ(files(), whole);
}

TEST(TensorBoard, WhatIsNotFiniteIsNotZero) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "metrics.jsonl")
      << R"({"step": 1, "unix_seconds": 1.0, "loss": null, "test_metrics": {"perplexity": null}})"
      << "\n";
  TensorBoardFile file(scratch.path());
  file.read_new();
  const auto path = std::filesystem::directory_iterator(scratch.path() / "tensorboard")->path();
  std::ifstream written(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(written), {}};
  for (const char* name : {"test/perplexity", "train/loss"}) {
    const std::string nan = scalar_event(1.0, 1, name, std::numeric_limits<float>::quiet_NaN());
    EXPECT_NE(bytes.find(tensorboard_record(nan)), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace distbelief::report
