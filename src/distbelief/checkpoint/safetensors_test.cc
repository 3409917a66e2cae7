#include "distbelief/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/checkpoint/safetensors_header.h"
#include "distbelief/testing/file_size_limit.h"

namespace distbelief::checkpoint {
namespace {

using Json = nlohmann::json;

struct Sample {
  std::vector<float> weight{1.5f, -2.0f, 3.25f, 0.0f, 5.0f, 6.0f};
  std::vector<float> bias{0.5f, 0.25f, 0.125f};
  std::vector<std::uint8_t> flags{1, 2, 3};
  std::vector<std::int64_t> count{-7};
  std::vector<double> scale{0.1, 0.2};

  template <typename T>
  static const std::byte* bytes(const std::vector<T>& values) {
    return reinterpret_cast<const std::byte*>(values.data());
  }
  // Deliberately not in name order.
  std::vector<TensorView> views() const {
    return {{"layer.weight", ElementType::kFloat32, {2, 3}, bytes(weight)},
            {"a.flags", ElementType::kUint8, {3}, bytes(flags)},
            {"layer.bias", ElementType::kFloat32, {3}, bytes(bias)},
            {"count", ElementType::kInt64, {}, bytes(count)},
            {"scale", ElementType::kFloat64, {2}, bytes(scale)},
            {"empty", ElementType::kFloat32, {0, 4}, nullptr}};
  }
};

class Safetensors : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "model.safetensors"; }
  void write_sample() const {
    write_safetensors(path(), sample_.views(), {{"buffers", "count"}, {"made", "hëre"}});
  }

  ScratchFolder folder_;
  Sample sample_;
};

TEST_F(Safetensors, GivesBackWhatWasWritten) {
  write_sample();
  const SafetensorsFile file(path());
  ASSERT_EQ(file.tensors().size(), 6u);
  for (const TensorView& wanted : sample_.views()) {
    const TensorView& found = file.tensor(wanted.name);
    EXPECT_EQ(found.type, wanted.type);
    EXPECT_EQ(found.shape, wanted.shape);
    if (wanted.byte_count() == 0) continue;
    EXPECT_EQ(std::memcmp(found.data, wanted.data, wanted.byte_count()), 0) << wanted.name;
  }
  EXPECT_EQ(file.metadata(), (Metadata{{"buffers", "count"}, {"made", "hëre"}}));
}

TEST_F(Safetensors, ListsTensorsByName) {
  write_sample();
  const SafetensorsFile file(path());
  std::vector<std::string> names;
  for (const TensorView& view : file.tensors()) names.push_back(view.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"a.flags", "count", "empty", "layer.bias", "layer.weight", "scale"}));
}

TEST_F(Safetensors, HasTheBytesThatTheFormatAsksFor) {
  write_sample();
  const std::string bytes = read_text(path());
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(bytes[8], '{');
  const Json header = Json::parse(bytes.substr(8, length));
  const Json weight = {{"dtype", "F32"}, {"shape", {2, 3}}, {"data_offsets", {36, 60}}};
  EXPECT_EQ(header.at("layer.weight"), weight);
  EXPECT_EQ(header.at("a.flags").at("data_offsets"), Json({60, 63}));
  EXPECT_EQ(bytes.size(), 8 + length + 63);
  EXPECT_EQ(std::memcmp(bytes.data() + 8 + length + 36, sample_.weight.data(), 24), 0);
}

TEST_F(Safetensors, AlignsEveryTensorToItsElements) {
  write_sample();
  const SafetensorsFile file(path());
  for (const TensorView& view : file.tensors()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % element_size(view.type), 0u) << view.name;
  }
}

TEST_F(Safetensors, StampsTheFileWithItsSizeAndChecksum) {
  const FileStamp stamp = write_safetensors(path(), sample_.views(), {});
  const std::string bytes = read_text(path());
  EXPECT_EQ(stamp.bytes, bytes.size());
  EXPECT_EQ(stamp.xxh3, xxh3(bytes.data(), bytes.size()));
}

TEST_F(Safetensors, HoldsNoTensorsAtAll) {
  write_safetensors(path(), {}, {});
  EXPECT_TRUE(SafetensorsFile(path()).tensors().empty());
}

TEST_F(Safetensors, HashesTensorsInNameOrderWhateverOrderTheyAreGivenIn) {
  const std::vector<TensorView> views = sample_.views();
  Sha256 wanted;
  wanted.update(sample_.bias.data(), 12);
  wanted.update(sample_.weight.data(), 24);
  EXPECT_EQ(sha256_by_name(std::vector{views[0], views[2]}), wanted.hex());
  EXPECT_EQ(sha256_by_name(std::vector{views[2], views[0]}), wanted.hex());
}

TEST_F(Safetensors, ReplacesAnOlderFileAndLeavesNothingElse) {
  write_text(path(), "old");
  write_sample();
  EXPECT_EQ(SafetensorsFile(path()).tensors().size(), 6u);
  EXPECT_EQ(folder_.entries(), 1u);
}

TEST_F(Safetensors, RefusesTruncationAtEveryByte) {
  write_sample();
  const std::string whole = read_text(path());
  const auto decode = [](const std::string& content) {
    return decode_header("file", std::as_bytes(std::span(content)));
  };
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(decode(whole.substr(0, size)), Error) << size;
  }
  EXPECT_THROW(decode(whole + '\0'), Error);
  EXPECT_EQ(decode(whole).tensors.size(), 6u);
}

TEST_F(Safetensors, RefusesADamagedFileByName) {
  write_sample();
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 1);
  try {
    SafetensorsFile file(path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(error.message().find(path().string() + " is not a whole safetensors file"), std::string::npos);
  }
}

TEST_F(Safetensors, SurvivesAnyFlippedHeaderBit) {
  write_sample();
  const std::string whole = read_text(path());
  const std::size_t bits = (whole.size() - 63) * 8;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    try {
      const DecodedHeader header = decode_header("file", std::as_bytes(std::span(damaged)));
      for (const TensorView& view : header.tensors) {
        EXPECT_LE(view.data + view.byte_count(), std::as_bytes(std::span(damaged)).data() + damaged.size());
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput) << "bit " << bit;
    }
  }
}

TEST_F(Safetensors, SaysWhichTensorIsMissing) {
  write_sample();
  const SafetensorsFile file(path());
  try {
    file.tensor("layer.missing");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(error.message().find("'layer.missing'"), std::string::npos);
  }
}

TEST_F(Safetensors, RefusesToWriteWhatTheFormatCannotHold) {
  const auto code = [&](std::vector<TensorView> views) {
    try {
      write_safetensors(path(), views, {});
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kAborted;
  };
  const TensorView good{"a", ElementType::kUint8, {1}, Sample::bytes(sample_.flags)};
  TensorView reserved = good, negative = good, no_text = good;
  reserved.name = "__metadata__";
  negative.shape = {-1};
  no_text.name = "\xff";
  EXPECT_EQ(code({good}), ErrorCode::kAborted);
  EXPECT_EQ(code({good, good}), ErrorCode::kBadInput);
  EXPECT_EQ(code({reserved}), ErrorCode::kBadInput);
  EXPECT_EQ(code({negative}), ErrorCode::kBadInput);
  EXPECT_EQ(code({no_text}), ErrorCode::kBadInput);
}

TEST_F(Safetensors, LeavesTheOldFileAndNothingElseWhenTheDiskIsFull) {
  write_text(path(), "old");
  const std::vector<std::byte> data(100'000);
  const TensorView view{"big", ElementType::kUint8, {100'000}, data.data()};
  std::string message;
  {
    const testing::FileSizeLimit limit(50'000);
    try {
      write_safetensors(path(), std::vector{view}, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
      message = error.message();
    }
  }
  EXPECT_NE(message.find(path().string()), std::string::npos) << message;
  EXPECT_NE(message.find("File too large"), std::string::npos) << message;
  EXPECT_NE(message.find("100080 bytes are needed"), std::string::npos) << message;
  EXPECT_EQ(read_text(path()), "old");
  EXPECT_EQ(folder_.entries(), 1u);
}

TEST_F(Safetensors, NamesAFolderThatDoesNotExist) {
  const auto absent = folder_.path() / "absent" / "model.safetensors";
  try {
    write_safetensors(absent, {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_NE(error.message().find(absent.string() + ": No such file"), std::string::npos) << error.message();
  }
  EXPECT_THROW(SafetensorsFile{absent}, Error);
}

}  // namespace
}  // namespace distbelief::checkpoint
