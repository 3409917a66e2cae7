#include "distbelief/checkpoint/safetensors.h"

#include <algorithm>
#include <utility>

#include "distbelief/base/hash.h"
#include "distbelief/checkpoint/safetensors_header.h"

namespace distbelief::checkpoint {

SafetensorsStamp write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                                   const Metadata& metadata, const AtPoint& at) {
  const EncodedHeader header = encode_header(tensors, metadata);
  DurableFile file(path, {.bytes_needed = header.bytes.size() + header.data_bytes, .at = at});
  SafetensorsStamp stamp;
  std::uint64_t offset = 0;
  const auto write = [&](const std::string& name, const void* data, std::size_t bytes) {
    file.write(data, bytes);
    const std::uint64_t begin = std::exchange(offset, offset + bytes);
    return PartStamp{.name = name, .offset = begin, .bytes = bytes, .xxh3 = xxh3(data, bytes)};
  };
  stamp.header = write("", header.bytes.data(), header.bytes.size());
  std::vector<std::byte> buffer;
  for (const TensorView* tensor : header.order) {
    stamp.tensors.push_back(write(tensor->name, bytes_of(*tensor, buffer), tensor->byte_count()));
    if (tensor->done) tensor->done(*tensor);
  }
  static_cast<FileStamp&>(stamp) = file.commit();
  return stamp;
}

std::string sha256_by_name(std::span<const TensorView> tensors) {
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const TensorView* a, const TensorView* b) { return a->name < b->name; });
  Sha256 hash;
  std::vector<std::byte> buffer;
  for (const TensorView* tensor : order) {
    hash.update(bytes_of(*tensor, buffer), tensor->byte_count());
    if (tensor->done) tensor->done(*tensor);
  }
  return hash.hex();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, HalfFloats halves)
    : SafetensorsFile(MappedFile(path), halves) {}

SafetensorsFile::SafetensorsFile(MappedFile file, HalfFloats halves) : file_(std::move(file)) {
  DecodedHeader header = decode_header(file_.path().string(), file_.bytes(), halves);
  index_ = TensorIndex(file_.path(), std::move(header.tensors));
  metadata_ = std::move(header.metadata);
}

}  // namespace distbelief::checkpoint
