#include "distbelief/data/formats/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/base/prefetch.h"
#include "distbelief/data/io/input_file.h"

namespace distbelief::data {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr std::size_t kMagicBytes = 4;
constexpr std::size_t kDimensionBytes = 4;
constexpr std::uint64_t kFirstGrowth = std::uint64_t{1} << 20;

Error damaged(const InputFile& file, std::uint64_t offset, const std::string& reason) {
  return Error(ErrorCode::kBadInput, fmt::format("{}: {}", file.at(offset), reason));
}

std::vector<std::uint8_t> read_header(InputFile& file, std::size_t rank) {
  std::vector<std::uint8_t> header(kMagicBytes + kDimensionBytes * rank);
  const std::size_t got = file.read(header.data(), header.size());
  if (got >= 2 && (header[0] != 0 || header[1] != 0)) {
    throw damaged(file, 0,
                  fmt::format("an IDX file starts with 0 0, this one with {} {}; it is something else",
                              header[0], header[1]));
  }
  if (got >= 3 && header[2] != kUnsignedByte) {
    throw damaged(file, 2,
                  fmt::format("elements of type 8 (unsigned byte) wanted, found type {}", header[2]));
  }
  if (got >= kMagicBytes && header[3] != rank) {
    throw damaged(file, 3,
                  fmt::format("{} dimensions wanted, found {}; images and labels swapped?", rank, header[3]));
  }
  if (got < header.size()) {
    throw damaged(file, got,
                  fmt::format("the file ends within its header of {} bytes; fetch it again", header.size()));
  }
  return header;
}

Shape parse_shape(const InputFile& file, const std::vector<std::uint8_t>& header) {
  Shape shape;
  for (std::size_t at = kMagicBytes; at < header.size(); at += kDimensionBytes) {
    std::int64_t dimension = 0;
    for (std::size_t i = 0; i < kDimensionBytes; ++i) dimension = dimension << 8 | header[at + i];
    if (dimension == 0) throw damaged(file, at, "a dimension is 0; an empty set cannot be used");
    shape.push_back(dimension);
  }
  return shape;
}

Error ends_early(const InputFile& file, std::uint64_t offset, const Shape& shape) {
  return damaged(
      file, offset,
      fmt::format("the file cannot go on beyond here, but its dimensions {} ask for more; it is cut "
                  "short or its header is damaged, fetch it again",
                  to_string(shape)));
}

// The product of the dimensions. Throws before it overflows or exceeds what the file can hold.
std::uint64_t claimed_elements(const InputFile& file, const Shape& shape) {
  const std::uint64_t most = file.content_limit() - std::min(file.content_limit(), file.offset());
  std::uint64_t count = 1;
  for (const std::int64_t dimension : shape) {
    if (count > most / static_cast<std::uint64_t>(dimension))
      throw ends_early(file, file.content_limit(), shape);
    count *= static_cast<std::uint64_t>(dimension);
  }
  return count;
}

std::vector<std::uint8_t> read_elements(InputFile& file, const Shape& shape) {
  const std::uint64_t claimed = claimed_elements(file, shape);
  std::vector<std::uint8_t> elements;
  if (file.stored_bytes() >= claimed) elements.reserve(claimed);  // a compressed file may hold fewer
  while (elements.size() < claimed) {
    const std::size_t have = elements.size();
    const std::uint64_t grown = std::min(claimed, std::max<std::uint64_t>(kFirstGrowth, have * 2));
    elements.reserve(grown);
    elements.resize(grown);
    if (file.read(elements.data() + have, grown - have) < grown - have) {
      throw ends_early(file, file.offset(), shape);
    }
  }
  std::uint8_t extra = 0;
  const std::uint64_t end = file.offset();
  if (file.read(&extra, 1) != 0) {
    throw damaged(file, end,
                  fmt::format("bytes follow after the end that its dimensions {} set; fetch it again",
                              to_string(shape)));
  }
  return elements;
}

void check_labels(const std::filesystem::path& path, const IdxArray& labels, std::int64_t classes) {
  const auto& values = labels.elements;
  const auto wrong =
      std::find_if(values.begin(), values.end(), [&](std::uint8_t value) { return value >= classes; });
  if (wrong == values.end()) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("'{}', byte {} of the content: label {} is outside 0 to {}", path.string(),
                          labels.elements_offset + static_cast<std::uint64_t>(wrong - values.begin()), *wrong,
                          classes - 1));
}

std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& name,
                                const std::string& advice) {
  for (const char* ending : {"", ".gz"}) {
    std::error_code ignored;  // whatever the reason, the file is unavailable
    const std::filesystem::path path = folder / (name + ending);
    if (std::filesystem::exists(path, ignored)) return path;
  }
  throw missing_from(folder, fmt::format("{0} or {0}.gz", name), advice);
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, std::size_t rank) {
  InputFile file(path);
  IdxArray array;
  array.shape = parse_shape(file, read_header(file, rank));
  array.elements_offset = file.offset();
  array.elements = read_elements(file, array.shape);
  return array;
}

IdxSource::IdxSource(const std::filesystem::path& images, const std::filesystem::path& labels,
                     const IdxTraits& traits)
    : images_(read_idx(images, 3)),
      labels_(read_idx(labels, 1)) {
  if (images_.shape[0] != labels_.shape[0]) {
    throw Error(
        ErrorCode::kBadInput,
        fmt::format(
            "'{}', byte {}: {} images, but '{}', byte {}: {} labels; the files do not belong together",
            images.string(), kMagicBytes, images_.shape[0], labels.string(), kMagicBytes, labels_.shape[0]));
  }
  check_labels(labels, labels_, traits.classes);
  spec_.input_type = ElementType::kUint8;
  spec_.input_shape = {1, images_.shape[1], images_.shape[2]};
  spec_.classes = traits.classes;
  spec_.class_names = traits.class_names;
  spec_.mean = {traits.mean};
  spec_.deviation = {traits.deviation};
  image_bytes_ = static_cast<std::size_t>(element_count(spec_.input_shape));
}

void IdxSource::read(std::uint64_t index, void* input, void* target) const {
  read_columns(index, 0, image_bytes_, input, target);
}

void IdxSource::read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                             void* target) const {
  DISTBELIEF_INVARIANT(index < size() && begin + count <= image_bytes_);
  std::memcpy(input, images_.elements.data() + index * image_bytes_ + begin, count);
  *static_cast<std::int64_t*>(target) = labels_.elements[index];
}

void IdxSource::expect(std::uint64_t index) const {
  prefetch(images_.elements.data() + index * image_bytes_, image_bytes_);
}

DataSet open_idx_folder(const std::filesystem::path& folder, const IdxTraits& traits,
                        const std::string& advice) {
  const auto images = [&](const std::string& part) {
    return find_file(folder, part + "-images-idx3-ubyte", advice);
  };
  const auto open = [&](const std::string& part) {
    return std::make_unique<IdxSource>(images(part), find_file(folder, part + "-labels-idx1-ubyte", advice),
                                       traits);
  };
  DataSet set{open("train"), open("t10k")};
  const Shape &train = set.train->spec().input_shape, &test = set.test->spec().input_shape;
  if (train != test)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("images to test on must have the shape of those to train on: '{}' has {}, '{}' has "
                    "{}; do both belong to one data set?",
                    images("train").string(), to_string(train), images("t10k").string(), to_string(test)));
  return set;
}

}  // namespace distbelief::data
