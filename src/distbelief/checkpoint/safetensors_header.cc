#include "distbelief/checkpoint/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"

namespace distbelief::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";
// header > tensor > shape > number: deeper values have no meaning.
constexpr int kMaxDepth = 3;
constexpr std::size_t kMaxDimensions = 64;

constexpr std::array<std::pair<ElementType, std::string_view>, 4> kTypeNames{{
    {ElementType::kUint8, "U8"},
    {ElementType::kInt64, "I64"},
    {ElementType::kFloat32, "F32"},
    {ElementType::kFloat64, "F64"},
}};

constexpr std::array<std::pair<Stored, std::string_view>, 2> kHalfNames{{
    {Stored::kFloat16, "F16"},
    {Stored::kBfloat16, "BF16"},
}};

std::string_view type_name(ElementType type) {
  const auto is_type = [type](const auto& entry) { return entry.first == type; };
  return std::find_if(kTypeNames.begin(), kTypeNames.end(), is_type)->second;
}

std::vector<const TensorView*> data_order(std::span<const TensorView> tensors) {
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    const std::size_t size_a = element_size(a->type), size_b = element_size(b->type);
    return size_a != size_b ? size_a > size_b : a->name < b->name;
  });
  return order;
}

[[noreturn]] void refuse_tensor(const TensorView& tensor, std::string_view reason) {
  throw Error(ErrorCode::kBadInput, fmt::format("tensor '{}' of shape {} cannot be saved: {}", tensor.name,
                                                to_string(tensor.shape), reason));
}

std::string padded_with_length(std::string json) {
  json.append((8 - json.size() % 8) % 8, ' ');
  if (json.size() > kMaxHeaderBytes) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("a safetensors header holds at most {} bytes, {} are needed: "
                            "fewer tensors or shorter names",
                            kMaxHeaderBytes, json.size()));
  }
  std::string bytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return bytes + json;
}

// Decodes one header; keeps the file's name for errors.
class Decoder {
 public:
  Decoder(std::string_view origin, std::span<const std::byte> file, HalfFloats halves)
      : origin_(origin),
        file_(file),
        halves_(halves) {}

  DecodedHeader decode() {
    const std::uint64_t header_bytes = header_length();
    const Json header = parse(file_.subspan(kLengthBytes, header_bytes));
    data_ = file_.subspan(kLengthBytes + header_bytes);
    DecodedHeader result;
    for (const auto& item : header.items()) {
      if (item.key() == kMetadataKey) {
        result.metadata = metadata(item.value());
      } else {
        result.tensors.push_back(tensor(item.key(), item.value()));
      }
    }
    check_cover(result.tensors);
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is not a whole safetensors file: {}; use another copy of it", origin_, what));
  }

  std::uint64_t header_length() const {
    if (file_.size() < kLengthBytes) {
      fail(fmt::format("it ends at offset {}, before the 8 bytes of the header's length", file_.size()));
    }
    std::uint64_t length = 0;
    for (std::size_t i = kLengthBytes; i-- > 0;)
      length = length << 8 | std::to_integer<std::uint64_t>(file_[i]);
    if (length > kMaxHeaderBytes) {
      fail(
          fmt::format("offset 0 gives the header {} bytes, at most {} are allowed", length, kMaxHeaderBytes));
    }
    if (length > file_.size() - kLengthBytes) {
      fail(fmt::format("offset 0 gives the header {} bytes, but the file ends at offset {}", length,
                       file_.size()));
    }
    return length;
  }

  // Refuses deep nesting, which costs memory far beyond the file's size, and equal keys, of which nlohmann
  // silently keeps the last.
  Json parse(std::span<const std::byte> text) const {
    const char* begin = reinterpret_cast<const char*>(text.data());
    if (const auto at = nests_deeper({begin, text.size()}, kMaxDepth))
      fail(fmt::format("the header is nested too deeply at offset {}", kLengthBytes + *at));
    std::set<std::string> names;
    const auto guard = [&](int depth, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::key && depth == 1 && !names.insert(value.get<std::string>()).second) {
        fail(fmt::format("tensor '{}' is listed twice", value.get<std::string>()));
      }
      return true;
    };
    try {
      Json header = Json::parse(begin, begin + text.size(), guard);
      if (!header.is_object()) fail("the header at offset 8 is not a JSON object");
      return header;
    } catch (const Json::exception& error) {
      fail(fmt::format("the header at offset 8 is not JSON: {}", error.what()));
    }
  }

  Metadata metadata(const Json& values) const {
    if (!values.is_object()) fail("'__metadata__' is not an object");
    Metadata result;
    for (const auto& item : values.items()) {
      if (!item.value().is_string()) fail(fmt::format("metadata '{}' is not a string", item.key()));
      result[item.key()] = item.value().get<std::string>();
    }
    return result;
  }

  const Json& field(const std::string& name, const Json& entry, const char* key) const {
    const auto found = entry.is_object() ? entry.find(key) : entry.end();
    if (found == entry.end()) fail(fmt::format("tensor '{}' has no '{}'", name, key));
    return *found;
  }

  // The type, and how the file stores the elements.
  std::pair<ElementType, Stored> type(const std::string& name, const Json& entry) const {
    const Json& value = field(name, entry, "dtype");
    for (const auto& [type, type_name] : kTypeNames)
      if (value == type_name) return {type, Stored::kAsTyped};
    for (const auto& [stored, type_name] : kHalfNames)
      if (value == type_name && halves_ == HalfFloats::kWidened) return {ElementType::kFloat32, stored};
    fail(fmt::format(
        "tensor '{}' has dtype {}, known here are U8, I64, F32 and F64; F16 and BF16 {}", name, value.dump(),
        halves_ == HalfFloats::kWidened ? "become F32" : "are only taken to begin training with"));
  }

  std::vector<std::uint64_t> numbers(const std::string& name, const Json& entry, const char* key) const {
    const Json& values = field(name, entry, key);
    if (!values.is_array() || values.size() > kMaxDimensions) {
      fail(fmt::format("tensor '{}': '{}' is not a list of at most {} numbers", name, key, kMaxDimensions));
    }
    std::vector<std::uint64_t> result;
    for (const Json& value : values) {
      if (!value.is_number_unsigned() ||
          value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        fail(fmt::format("tensor '{}': '{}' holds {}, not an index", name, key, value.dump()));
      }
      result.push_back(value.get<std::uint64_t>());
    }
    return result;
  }

  TensorView tensor(const std::string& name, const Json& entry) const {
    const auto [element_type, stored] = type(name, entry);
    TensorView view{.name = name, .type = element_type, .shape = {}, .data = nullptr, .stored = stored};
    for (std::uint64_t size : numbers(name, entry, "shape"))
      view.shape.push_back(static_cast<std::int64_t>(size));
    const std::vector<std::uint64_t> offsets = numbers(name, entry, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      fail(fmt::format("tensor '{}' has no begin and end", name));
    if (offsets[1] > data_.size()) {
      fail(fmt::format("tensor '{}' ends at data offset {}, the data at {}", name, offsets[1], data_.size()));
    }
    const auto wanted = checked_byte_count(view.type, view.shape);
    if (!wanted) fail(fmt::format("tensor '{}' has the impossible shape {}", name, to_string(view.shape)));
    if (view.stored_bytes() != offsets[1] - offsets[0]) {
      fail(fmt::format("tensor '{}' at data offset {} has {} bytes, its shape {} needs {}", name, offsets[0],
                       offsets[1] - offsets[0], to_string(view.shape), view.stored_bytes()));
    }
    view.data = data_.data() + offsets[0];
    return view;
  }

  // Every byte of the data belongs to exactly one tensor.
  void check_cover(const std::vector<TensorView>& tensors) const {
    std::vector<std::pair<std::uint64_t, const TensorView*>> starts;
    for (const TensorView& view : tensors) starts.emplace_back(view.data - data_.data(), &view);
    std::sort(starts.begin(), starts.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first, a.second->stored_bytes()) < std::pair(b.first, b.second->stored_bytes());
    });
    std::uint64_t end = 0;
    for (const auto& [begin, view] : starts) {
      if (begin < end)
        fail(fmt::format("tensor '{}' at data offset {} overlaps the one before it", view->name, begin));
      if (begin > end) fail(fmt::format("a hole at data offset {}, before tensor '{}'", end, view->name));
      end = begin + view->stored_bytes();
    }
    if (end != data_.size()) {
      fail(fmt::format("the tensors end at data offset {}, the data at {}", end, data_.size()));
    }
  }

  std::string_view origin_;
  std::span<const std::byte> file_;
  HalfFloats halves_;
  std::span<const std::byte> data_;
};

}  // namespace

std::optional<std::uint64_t> checked_byte_count(ElementType type, const Shape& shape) {
  auto bytes = static_cast<std::int64_t>(element_size(type));  // signed: element_count() must hold it too
  for (const std::int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

EncodedHeader encode_header(std::span<const TensorView> tensors, const Metadata& metadata) {
  EncodedHeader result{.bytes = {}, .order = data_order(tensors), .data_bytes = 0};
  Json header = Json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  for (const TensorView* tensor : result.order) {
    const auto bytes = checked_byte_count(tensor->type, tensor->shape);
    if (!bytes) refuse_tensor(*tensor, "its size is negative or beyond 64 bits");
    if (tensor->name == kMetadataKey) refuse_tensor(*tensor, "the format keeps this name for itself");
    if (header.contains(tensor->name)) refuse_tensor(*tensor, "another one has the same name");
    const std::uint64_t begin = result.data_bytes;
    if (__builtin_add_overflow(begin, *bytes, &result.data_bytes))
      refuse_tensor(*tensor, "the sum overflows");
    header[tensor->name] = {{"dtype", type_name(tensor->type)},
                            {"shape", tensor->shape},
                            {"data_offsets", {begin, result.data_bytes}}};
  }
  try {
    result.bytes = padded_with_length(header.dump());
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("names and metadata of tensors must be UTF-8: {}", error.what()));
  }
  return result;
}

DecodedHeader decode_header(std::string_view origin, std::span<const std::byte> file, HalfFloats halves) {
  return Decoder(origin, file, halves).decode();
}

}  // namespace distbelief::checkpoint
