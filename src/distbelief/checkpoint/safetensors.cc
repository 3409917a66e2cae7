#include "distbelief/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/checkpoint/safetensors_header.h"

namespace distbelief::checkpoint {

SafetensorsStamp write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                                   const Metadata& metadata, const AtPoint& at) {
  const EncodedHeader header = encode_header(tensors, metadata);
  DurableFile file(path, header.bytes.size() + header.data_bytes, at);
  SafetensorsStamp stamp;
  std::uint64_t offset = 0;
  const auto write = [&](const std::string& name, const void* data, std::size_t bytes) {
    file.write(data, bytes);
    const std::uint64_t begin = std::exchange(offset, offset + bytes);
    return PartStamp{.name = name, .offset = begin, .bytes = bytes, .xxh3 = xxh3(data, bytes)};
  };
  stamp.header = write("", header.bytes.data(), header.bytes.size());
  for (const TensorView* tensor : header.order)
    stamp.tensors.push_back(write(tensor->name, tensor->data, tensor->byte_count()));
  static_cast<FileStamp&>(stamp) = file.commit();
  return stamp;
}

std::string sha256_by_name(std::span<const TensorView> tensors) {
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const TensorView* a, const TensorView* b) { return a->name < b->name; });
  Sha256 hash;
  for (const TensorView* tensor : order) hash.update(tensor->data, tensor->byte_count());
  return hash.hex();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : SafetensorsFile(MappedFile(path)) {}

SafetensorsFile::SafetensorsFile(MappedFile file) : file_(std::move(file)) {
  DecodedHeader header = decode_header(file_.path().string(), file_.bytes());
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
}

const TensorView& SafetensorsFile::tensor(const std::string& name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorView& view, const std::string& key) { return view.name < key; });
  if (found == tensors_.end() || found->name != name) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} has no tensor '{}' among its {}: it was written by another model or version",
                            path().string(), name, tensors_.size()));
  }
  return *found;
}

}  // namespace distbelief::checkpoint
