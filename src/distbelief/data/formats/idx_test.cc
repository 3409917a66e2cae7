#include "distbelief/data/formats/idx.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <fstream>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

using Bytes = std::vector<std::uint8_t>;
using ::testing::IsSubstring;

Bytes idx(std::uint8_t type, const std::vector<std::uint32_t>& dimensions, const Bytes& elements) {
  Bytes bytes{0, 0, type, static_cast<std::uint8_t>(dimensions.size())};
  for (const std::uint32_t dimension : dimensions) {
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<std::uint8_t>(dimension >> shift));
  }
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  return bytes;
}

Bytes counting(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  return bytes;
}

class Idx : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "distbelief_idx_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const Bytes& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return folder_ / name;
  }
  std::filesystem::path write_gzip(const std::string& name, const Bytes& bytes) const {
    const std::filesystem::path path = folder_ / name;
    gzFile file = gzopen(path.c_str(), "wb");
    EXPECT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
              static_cast<int>(bytes.size()));
    EXPECT_EQ(gzclose(file), Z_OK);
    return path;
  }
  Bytes content(const std::filesystem::path& path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void write_set(const std::string& images_ending) const {
    for (const std::string part : {"train", "t10k"}) {
      write(part + "-labels-idx1-ubyte",
            idx(8, {2}, {3, part == "train" ? std::uint8_t{9} : std::uint8_t{1}}));
      const Bytes images = idx(8, {2, 2, 3}, counting(12));
      const std::string name = part + "-images-idx3-ubyte" + images_ending;
      images_ending.empty() ? write(name, images) : write_gzip(name, images);
    }
  }

  std::filesystem::path folder_;
};

// Returns the message of the Error that `action` throws, and expects this code.
template <typename Action>
std::string failure(ErrorCode code, Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

std::string damage(const std::filesystem::path& path, std::size_t rank) {
  return failure(ErrorCode::kBadInput, [&] { read_idx(path, rank); });
}

std::string place(const std::string& name, std::size_t offset) {
  return name + "', byte " + std::to_string(offset);
}

TEST_F(Idx, ReadsPlainAndGzipAlike) {
  const Bytes elements = counting(3'000'000);  // several reallocations and buffers
  const Bytes file = idx(8, {3000, 10, 100}, elements);
  for (const auto& path :
       {write("plain", file), write_gzip("packed.gz", file), write_gzip("packed_unnamed", file)}) {
    const IdxArray array = read_idx(path, 3);
    EXPECT_EQ(array.shape, (Shape{3000, 10, 100}));
    EXPECT_EQ(array.elements_offset, 16U);
    EXPECT_TRUE(array.elements == elements);
  }
}

TEST_F(Idx, ReadsJoinedGzipFiles) {
  Bytes joined = content(write_gzip("a", idx(8, {4}, {1, 2})));
  const Bytes second = content(write_gzip("b", {3, 4}));
  joined.insert(joined.end(), second.begin(), second.end());
  EXPECT_EQ(read_idx(write("joined", joined), 1).elements, (Bytes{1, 2, 3, 4}));
}

TEST_F(Idx, NamesAFileThatCannotBeRead) {
  EXPECT_PRED_FORMAT2(IsSubstring, "nowhere",
                      failure(ErrorCode::kUnavailable, [&] { read_idx(folder_ / "nowhere", 1); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "not a regular file",
                      failure(ErrorCode::kUnavailable, [&] { read_idx(folder_, 1); }));
}

TEST_F(Idx, RefusesForeignHeadersWithTheirOffset) {
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "text', byte 0: ", damage(write("text", {'h', 'e', 'l', 'l', 'o', '!', '!', '!'}), 1));
  EXPECT_PRED_FORMAT2(IsSubstring, "type', byte 2: ", damage(write("type", idx(13, {2}, {1, 2})), 1));
  EXPECT_PRED_FORMAT2(IsSubstring, "rank', byte 3: ", damage(write("rank", idx(8, {2}, {1, 2})), 3));
  EXPECT_PRED_FORMAT2(IsSubstring, "zero', byte 8: ", damage(write("zero", idx(8, {2, 0, 2}, {})), 3));
  EXPECT_PRED_FORMAT2(IsSubstring, "empty', byte 0: ", damage(write("empty", {}), 1));
}

TEST_F(Idx, RefusesEveryTruncationWithItsOffset) {
  const Bytes whole = idx(8, {2, 2, 3}, counting(12));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_PRED_FORMAT2(IsSubstring, place("plain", length), damage(write("plain", cut), 3));
    EXPECT_PRED_FORMAT2(IsSubstring, place("packed", length), damage(write_gzip("packed", cut), 3));
  }
}

TEST_F(Idx, RefusesTruncatedAndDamagedCompression) {
  const Bytes packed = content(write_gzip("packed", idx(8, {1000}, counting(1000))));
  for (std::size_t length = 2; length < packed.size(); ++length) {
    const Bytes cut(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_PRED_FORMAT2(IsSubstring, place("cut", length), damage(write("cut", cut), 1));
  }
  Bytes wrong_checksum = packed;
  wrong_checksum[packed.size() - 6] ^= 1;
  EXPECT_PRED_FORMAT2(IsSubstring, "of the gzip file: incorrect data check",
                      damage(write("checksum", wrong_checksum), 1));
}

TEST_F(Idx, RefusesBytesAfterTheEnd) {
  Bytes longer = idx(8, {4}, {1, 2, 3, 4});
  longer.push_back(0);
  EXPECT_PRED_FORMAT2(IsSubstring, "plain', byte 12: bytes follow", damage(write("plain", longer), 1));
  EXPECT_PRED_FORMAT2(IsSubstring, "packed', byte 12 when decompressed: bytes follow",
                      damage(write_gzip("packed", longer), 1));
  Bytes packed = content(write_gzip("packed", idx(8, {4}, {1, 2, 3, 4})));
  packed.insert(packed.end(), {1, 2, 3, 4});
  EXPECT_PRED_FORMAT2(IsSubstring, "of the gzip file", damage(write("appended", packed), 1));
}

TEST_F(Idx, RefusesDimensionBombsBeforeAllocating) {
  const std::uint32_t most = 0xffffffff;
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "byte 116: ", damage(write("plain", idx(8, {most, most, most}, counting(100))), 3));
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "byte 116: ", damage(write("wrap", idx(8, {65536, 65536, most}, counting(100))), 3));
  EXPECT_PRED_FORMAT2(IsSubstring, "packed",
                      damage(write_gzip("packed", idx(8, {most, most, most}, counting(100))), 3));
  EXPECT_PRED_FORMAT2(IsSubstring, "byte 116 when",
                      damage(write_gzip("modest", idx(8, {1000, 10, 10}, counting(100))), 3));
}

TEST_F(Idx, RefusesAnyChangedHeaderBit) {
  const Bytes whole = idx(8, {2, 2, 3}, counting(12));
  for (std::size_t at = 0; at < 16; ++at) {
    for (int change = 1; change < 256; change *= 2) {
      Bytes changed = whole;
      changed[at] = static_cast<std::uint8_t>(changed[at] ^ change);
      EXPECT_PRED_FORMAT2(IsSubstring, "changed', byte ", damage(write("changed", changed), 3));
    }
  }
}

TEST_F(Idx, SourceGivesImagesAndLabels) {
  const auto images = write_gzip("images", idx(8, {3, 2, 2}, counting(12)));
  const auto labels = write("labels", idx(8, {3}, {4, 0, 9}));
  const IdxSource source(images, labels, {.classes = 10, .mean = 0.5F, .deviation = 0.25F});
  EXPECT_EQ(source.size(), 3U);
  EXPECT_EQ(source.spec().input_shape, (Shape{1, 2, 2}));
  EXPECT_EQ(source.spec().target_shape, Shape{});
  EXPECT_EQ(source.spec().classes, 10);
  EXPECT_EQ(source.spec().mean, std::vector<float>{0.5F});
  EXPECT_EQ(source.spec().deviation, std::vector<float>{0.25F});
  Bytes image(4);
  std::int64_t label = -1;
  source.read(2, reinterpret_cast<std::byte*>(image.data()), &label);
  EXPECT_EQ(label, 9);
  const Bytes all = counting(12);
  EXPECT_EQ(image, Bytes(all.begin() + 8, all.end()));
}

TEST_F(Idx, SourceRefusesLabelsThatDoNotFit) {
  const auto images = write("images", idx(8, {3, 2, 2}, counting(12)));
  const auto two = write("two", idx(8, {2}, {4, 0}));
  const auto high = write("high", idx(8, {3}, {4, 10, 2}));
  const auto open = [&](const std::filesystem::path& labels) {
    return failure(ErrorCode::kBadInput, [&] { IdxSource(images, labels, IdxTraits{}); });
  };
  EXPECT_PRED_FORMAT2(IsSubstring, "3 images", open(two));
  EXPECT_PRED_FORMAT2(IsSubstring, "2 labels", open(two));
  EXPECT_PRED_FORMAT2(IsSubstring, "high', byte 9", open(high));
  EXPECT_PRED_FORMAT2(IsSubstring, "images', byte 3: ", open(images));
}

TEST_F(Idx, FolderIsOpenedPlainOrGzip) {
  for (const std::string ending : {"", ".gz"}) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    write_set(ending);
    const DataSet set = open_idx_folder(folder_, IdxTraits{}, "");
    Bytes image(6);
    std::int64_t label = -1;
    set.train->read(1, reinterpret_cast<std::byte*>(image.data()), &label);
    EXPECT_EQ(label, 9);
    set.test->read(1, reinterpret_cast<std::byte*>(image.data()), &label);
    EXPECT_EQ(label, 1);
  }
}

TEST_F(Idx, FolderRefusesTestImagesOfAnotherShape) {
  write_set("");
  write("t10k-images-idx3-ubyte", idx(8, {2, 3, 2}, counting(12)));
  const std::string message =
      failure(ErrorCode::kBadInput, [&] { open_idx_folder(folder_, IdxTraits{}, ""); });
  EXPECT_PRED_FORMAT2(IsSubstring, "train-images-idx3-ubyte' has [1, 2, 3]", message);
  EXPECT_PRED_FORMAT2(IsSubstring, "t10k-images-idx3-ubyte' has [1, 3, 2]", message);
}

TEST_F(Idx, FolderNamesTheMissingFileAndWhereToGetIt) {
  write_set("");
  std::filesystem::remove(folder_ / "t10k-labels-idx1-ubyte");
  const std::string message =
      failure(ErrorCode::kUnavailable, [&] { open_idx_folder(folder_, {}, "ask a friend"); });
  EXPECT_PRED_FORMAT2(IsSubstring, "lacks a file: t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz",
                      message);
  EXPECT_PRED_FORMAT2(IsSubstring, folder_.string(), message);
  EXPECT_PRED_FORMAT2(IsSubstring, "ask a friend", message);
}

}  // namespace
}  // namespace distbelief::data
