#include "distbelief/checkpoint/pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <list>
#include <numeric>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/checkpoint/writer.h"
#include "distbelief/testing/sample_state.h"

namespace distbelief::checkpoint {
namespace {

const std::byte* bytes_at(const std::vector<float>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

// Tensor "w" of a given shape; its elements count from 0.
class PiecesTest : public ::testing::Test {
 protected:
  std::vector<float> whole(const Shape& shape) const {
    std::vector<float> values(std::size_t(element_count(shape)));
    std::iota(values.begin(), values.end(), 0.0F);
    return values;
  }
  // A process's piece of w: some elements of a slice.
  TensorView piece(const Shape& shape, const Slice& slice, ElementRange range) {
    std::vector<float> local(std::size_t(slice.elements()));
    const std::vector<float> values = whole(shape);
    const TensorView all{.name = "w", .shape = shape, .data = bytes_at(values)};
    read_slice(all, slice, {0, slice.elements()}, reinterpret_cast<std::byte*>(local.data()));
    memory_.emplace_back(local.begin() + range.first, local.begin() + range.first + range.count);
    return piece_view({"w", shape, slice, range.first},
                      {.name = "w", .shape = {range.count}, .data = bytes_at(memory_.back())});
  }
  TensorView piece(const Shape& shape, const Slice& slice) {
    return piece(shape, slice, {0, slice.elements()});
  }
  // Saves each piece to a file of its own.
  std::vector<TensorView> saved(const std::vector<TensorView>& pieces, const Metadata& more = {}) {
    files_.clear();
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto path = scratch_.path() / std::to_string(i);
      Metadata metadata = with_pieces({}, std::span(&pieces[i], 1));
      for (const auto& [key, value] : more) metadata[key] = value;
      write_safetensors(path, std::span(&pieces[i], 1), metadata);
      files_.emplace_back(path);
    }
    return join_pieces("the checkpoint", files_);
  }
  static std::vector<float> all_of(const TensorView& tensor) {
    std::vector<std::byte> buffer;
    std::vector<float> values(std::size_t(element_count(tensor.shape)));
    std::memcpy(values.data(), bytes_of(tensor, buffer), tensor.byte_count());
    return values;
  }
  void expect_whole(const Shape& shape, const std::vector<TensorView>& pieces) {
    const std::vector<TensorView> found = saved(pieces);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].name, "w");
    EXPECT_EQ(found[0].shape, shape);
    EXPECT_EQ(all_of(found[0]), whole(shape));
  }
  void expect_refused(const std::string& reason, const std::vector<TensorView>& pieces,
                      const Metadata& more = {}) {
    try {
      saved(pieces, more);
      FAIL() << "not refused: " << reason;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }

  ScratchFolder scratch_;
  std::list<std::vector<float>> memory_;
  std::vector<SafetensorsFile> files_;
};

TEST_F(PiecesTest, AreNamedByTensorAndRange) {
  const Slice columns = slice_of({3, 8}, 1, {2, 4});
  EXPECT_EQ(piece({3, 8}, columns).name, "w[2:6]");
  EXPECT_EQ(piece({3, 8}, columns, {5, 4}).name, "w[2:6]@5-9");
  EXPECT_EQ(piece({3, 8}, whole_of({3, 8}), {5, 4}).name, "w@5-9");
  EXPECT_EQ(piece({3, 8}, whole_of({3, 8})).name, "w");
  EXPECT_FALSE(piece({3, 8}, whole_of({3, 8})).piece);
}

TEST_F(PiecesTest, OfAnyDimensionGiveTheWholeTensor) {
  const Shape shape{3, 8, 2};
  for (int dimension = 0; dimension < 3; ++dimension) {
    const std::int64_t size = shape[std::size_t(dimension)];
    const Slice first = slice_of(shape, dimension, {0, 1}), rest = slice_of(shape, dimension, {1, size - 1});
    expect_whole(shape, {piece(shape, rest), piece(shape, first)});
  }
}

TEST_F(PiecesTest, OfRangesOfSlicesGiveTheWholeTensor) {
  const Shape shape{3, 8};
  const Slice left = slice_of(shape, 1, {0, 5}), right = slice_of(shape, 1, {5, 3});
  expect_whole(shape, {piece(shape, left, {0, 7}), piece(shape, right, {0, 4}), piece(shape, left, {7, 8}),
                       piece(shape, right, {4, 5})});
  const Slice all = whole_of(shape);
  expect_whole(shape, {piece(shape, all, {20, 4}), piece(shape, all, {0, 20})});
}

TEST_F(PiecesTest, AnySliceOfAnotherCutIsReadOutOfThem) {
  const Shape shape{4, 6};
  const std::vector<TensorView> found =
      saved({piece(shape, slice_of(shape, 1, {0, 2})), piece(shape, slice_of(shape, 1, {2, 4}))});
  const Slice rows = slice_of(shape, 0, {1, 2});
  std::vector<float> values(5);
  read_slice(found[0], rows, {3, 5}, reinterpret_cast<std::byte*>(values.data()));
  EXPECT_EQ(values, (std::vector<float>{9, 10, 11, 12, 13}));
}

TEST_F(PiecesTest, WithGapsOrOverlapsAreRefused) {
  const Shape shape{4, 6};
  const auto rows = [&](std::int64_t begin, std::int64_t count) {
    return slice_of(shape, 0, {begin, count});
  };
  expect_refused("missing", {piece(shape, rows(0, 2))});
  expect_refused("missing", {piece(shape, rows(1, 3))});
  expect_refused("missing", {piece(shape, rows(0, 1)), piece(shape, rows(2, 2))});
  expect_refused("overlap", {piece(shape, rows(0, 3)), piece(shape, rows(2, 2))});
  expect_refused("missing", {piece(shape, rows(0, 2), {0, 11}), piece(shape, rows(2, 2))});
  expect_refused("overlap", {piece(shape, rows(0, 2), {0, 7}), piece(shape, rows(0, 2), {6, 6}),
                             piece(shape, rows(2, 2))});
  expect_refused("different tensors", {piece(shape, rows(0, 2)), piece({6, 4}, slice_of({6, 4}, 0, {2, 4}))});
}

TEST_F(PiecesTest, ThatLieAboutTheirPlaceAreRefused) {
  const TensorView half = piece({4, 6}, slice_of({4, 6}, 0, {0, 2}));
  for (const char* text :
       {R"({"w[0:2]":["w",[4,6],[1,4,0,2,5],0]})", R"({"w[0:2]":["w",[4,6],[1,4,3,2,6],0]})",
        R"({"w[0:2]":["w",[4,6],[0,4,0,2,6],0]})", R"({"w[0:2]":["w",[4,6],[1,4,0,2,6],1]})",
        R"({"w[0:2]":["w",[4,6],[1,4,0,9223372036854775807,6],0]})",
        R"({"w[0:2]":["w",[4,6],[1,4,-1,2,6],0]})",
        R"({"w[0:2]":["w",[4611686018427387904,4611686018427387904],[1,4,0,2,6],0]})",
        R"({"w[0:2]":["w",[0],[4611686018427387904,4611686018427387904,0,4611686018427387904,0],0]})"})
    expect_refused("no piece of 'w'", {half}, {{"pieces", text}});
  expect_refused("not described", {half}, {{"pieces", R"({"w[0:2]":["w"]})"}});
  for (const char* text :
       {"[", R"({"w[0:2]":["w",[4,6],[1,4,0,2.0,6],0]})", R"({"w[0:2]":["w",[4,6],[1,4,0,2,1e300],0]})"})
    expect_refused("not described", {half}, {{"pieces", text}});
  expect_refused("not described", {half}, {{"pieces", std::string(200'000, '[')}});
}

// Two writers with half of each tensor save the same checkpoint as one process with all of them.
TEST_F(PiecesTest, OfTwoWritersMakeTheCheckpointOfOne) {
  const testing::SampleState state(3);
  std::vector<std::unique_ptr<Writer>> writers;
  for (int part = 0; part < 2; ++part) {
    std::vector<TensorView> pieces;
    std::size_t weights = 0;
    for (std::size_t i = 0; i < state.views().size(); ++i) {
      TensorView view = state.views()[i];
      const std::int64_t count = element_count(view.shape), half = count / 2;
      const ElementRange range = part == 0 ? ElementRange{0, half} : ElementRange{half, count - half};
      const PieceOf piece{view.name, view.shape, whole_of(view.shape), range.first};
      view.data += element_size(view.type) * std::size_t(range.first);
      view.shape = {range.count};
      if (range.count > 0 || (count == 0 && part == 0)) pieces.push_back(piece_view(piece, view));
      if (i + 1 == testing::SampleState::kParameters) weights = pieces.size();
    }
    Snapshot snapshot = state.snapshot(1);
    snapshot.tensors = pieces;
    snapshot.weights = weights;
    snapshot.part = part;
    snapshot.parts = 2;
    snapshot.attempt = "one";
    writers.push_back(std::make_unique<Writer>(
        Writer::Options{.folder = scratch_.path() / "checkpoints", .keep = 1, .store = {}}));
    writers.back()->save(snapshot, Writer::Kind::kRegular);
  }
  for (const auto& writer : writers) writer->wait();
  const auto loaded =
      Store(scratch_.path() / "checkpoints").load_latest([](const Entry&, const Error& error) {
        throw error;
      });
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->weights_sha256(), sha256_by_name(state.views().first(testing::SampleState::kParameters)));
  EXPECT_TRUE(state.is_in(*loaded));
}

}  // namespace
}  // namespace distbelief::checkpoint
