#include "distbelief/checkpoint/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/checkpoint/safetensors_header.h"

namespace distbelief::checkpoint {
namespace {

using Json = nlohmann::json;

// Metadata key: maps each name in the file to [tensor, shape, slice, first].
constexpr const char* kPiecesKey = "pieces";

Json description(const PieceOf& piece) {
  const Slice& slice = piece.slice;
  return {piece.tensor,
          piece.shape,
          {slice.outer, slice.whole, slice.begin, slice.count, slice.inner},
          piece.first};
}

PieceOf piece_from(const Json& text) {
  const Json& slice = text.at(2);
  Shape shape;
  for (const Json& size : text.at(1)) shape.push_back(whole_number(size, 0));
  return {.tensor = text.at(0),
          .shape = std::move(shape),
          .slice = {.outer = whole_number(slice.at(0)),
                    .whole = whole_number(slice.at(1)),
                    .begin = whole_number(slice.at(2)),
                    .count = whole_number(slice.at(3)),
                    .inner = whole_number(slice.at(4))},
          .first = whole_number(text.at(3))};
}

// The numbers come from a file: each is bounded by the previous ones, and so is every product.
bool makes_sense(const PieceOf& piece, ElementType type, std::int64_t count) {
  const auto bytes = checked_byte_count(type, piece.shape);
  if (!bytes || count < 1) return false;
  const auto elements = std::int64_t(*bytes / element_size(type));
  if (count > elements) return false;
  const auto divides = [](std::int64_t part, std::int64_t all) { return part > 0 && all % part == 0; };
  const Slice& slice = piece.slice;
  if (!divides(slice.outer, elements) || !divides(slice.whole, elements / slice.outer)) return false;
  if (slice.inner != elements / slice.outer / slice.whole) return false;
  if (slice.count < 1 || slice.count > slice.whole) return false;
  if (slice.begin < 0 || slice.begin > slice.whole - slice.count) return false;
  return piece.first >= 0 && piece.first <= slice.elements() - count;
}

// The flaw in the pieces of a tensor, which are sorted by slice and then by first element; empty: none.
std::string flaw_of(const std::vector<TensorView>& pieces) {
  const PieceOf& front = *pieces.front().piece;
  std::int64_t begun = 0, covered = 0;  // end of the current slice; its elements so far
  Slice slice{.whole = front.slice.whole, .count = 0};
  for (const TensorView& view : pieces) {
    const PieceOf& piece = *view.piece;
    const bool alike = piece.shape == front.shape && view.type == pieces.front().type &&
                       piece.slice.outer == front.slice.outer && piece.slice.whole == front.slice.whole;
    if (!alike) return "its pieces are of different tensors";
    if (piece.slice != slice) {
      if (covered < slice.elements() || piece.slice.begin > begun) return "a piece of it is missing";
      if (piece.slice.begin < begun) return "its pieces overlap";
      slice = piece.slice;
      begun += slice.count;
      covered = 0;
    }
    if (piece.first != covered)
      return piece.first > covered ? "a piece of it is missing" : "its pieces overlap";
    covered += element_count(view.shape);
  }
  return covered == slice.elements() && begun == slice.whole ? "" : "a piece of it is missing";
}

class Joining {
 public:
  explicit Joining(const std::filesystem::path& origin) : origin_(origin) {}

  void add(const SafetensorsFile& file) {
    const auto text = file.metadata().find(kPiecesKey);
    Json described = Json::object();
    if (text != file.metadata().end()) described = json_or_discarded(text->second);
    if (!described.is_object()) fail(file.path().filename().string(), "its pieces are not described");
    for (TensorView view : file.tensors()) {
      if (const auto found = described.find(view.name); found != described.end())
        take(std::move(view), *found);
      else
        tensors_.push_back(std::move(view));
    }
  }

  std::vector<TensorView> result() {
    for (auto& [name, pieces] : pieces_) {
      std::ranges::sort(pieces, {}, [](const TensorView& view) {
        return std::pair(view.piece->slice.begin, view.piece->first);
      });
      if (const std::string flaw = flaw_of(pieces); !flaw.empty()) fail(name, flaw);
      TensorView whole{.name = name, .type = pieces.front().type, .shape = pieces.front().piece->shape};
      whole.pieces = std::make_shared<std::vector<TensorView>>(std::move(pieces));
      tensors_.push_back(std::move(whole));
    }
    return std::move(tensors_);
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& flaw) const {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: '{}': {}; use another copy of the checkpoint",
                                                  origin_.string(), name, flaw));
  }

  void take(TensorView view, const Json& text) {
    PieceOf piece;
    try {
      piece = piece_from(text);
    } catch (const std::exception&) {  // a wrong type or not an integer
      fail(view.name, "what it is a piece of is not described");
    }
    if (!makes_sense(piece, view.type, element_count(view.shape)))
      fail(view.name,
           fmt::format("it is no piece of '{}', which is {}", piece.tensor, to_string(piece.shape)));
    std::vector<TensorView>& others = pieces_[piece.tensor];
    view.piece = std::make_shared<PieceOf>(std::move(piece));
    others.push_back(std::move(view));
  }

  const std::filesystem::path& origin_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::vector<TensorView>> pieces_;
};

}  // namespace

TensorView piece_view(const PieceOf& piece, const TensorView& elements) {
  TensorView view = elements;
  const Slice& slice = piece.slice;
  const std::int64_t count = element_count(elements.shape);
  view.name = piece.tensor;
  view.shape = piece.shape;
  if (slice.is_whole() && count == slice.elements()) return view;
  if (!slice.is_whole()) view.name += fmt::format("[{}:{}]", slice.begin, slice.begin + slice.count);
  if (count != slice.elements()) view.name += fmt::format("@{}-{}", piece.first, piece.first + count);
  view.shape = {count};
  view.piece = std::make_shared<PieceOf>(piece);
  return view;
}

Metadata with_pieces(Metadata metadata, std::span<const TensorView> tensors) {
  Json pieces = Json::object();
  for (const TensorView& tensor : tensors)
    if (tensor.piece) pieces[tensor.name] = description(*tensor.piece);
  if (!pieces.empty()) metadata[kPiecesKey] = pieces.dump();
  return metadata;
}

std::vector<TensorView> join_pieces(const std::filesystem::path& origin,
                                    std::span<const SafetensorsFile> files) {
  Joining joining(origin);
  for (const SafetensorsFile& file : files) joining.add(file);
  return joining.result();
}

}  // namespace distbelief::checkpoint
