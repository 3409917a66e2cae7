#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "distbelief/base/durable_file.h"
#include "distbelief/checkpoint/mapped_file.h"
#include "distbelief/checkpoint/tensor_index.h"

// The safetensors format: 8 bytes of little-endian header length, a JSON header, the tensors' bytes without
// gaps. The safetensors packages of Python and Rust can read it.
namespace distbelief::checkpoint {

using Metadata = std::map<std::string, std::string>;

// Identifies a part of a written file.
struct PartStamp {
  std::string name;          // tensor
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;
};

// Identifies a written file and the parts that make it up without gaps.
struct SafetensorsStamp : FileStamp {
  PartStamp header;
  std::vector<PartStamp> tensors;  // in file order
};

// Writes the tensors durably, whole or not at all; they must not change meanwhile. The header lists them by
// name. Their bytes are ordered by element size, wide ones first, then by name, so that each is aligned.
// Throws Error(kBadInput) for a name or shape that the format cannot hold, Error(kUnavailable) with file,
// reason and needed bytes when the disk refuses it; then nothing is left behind.
SafetensorsStamp write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                                   const Metadata& metadata, const AtPoint& at = {});

// SHA-256 over the tensors' bytes in name order.
std::string sha256_by_name(std::span<const TensorView> tensors);

// Treatment of tensors of type F16 and BF16, which this program does not write.
enum class HalfFloats { kRefused, kWidened };

// A safetensors file mapped into memory. The constructor trusts nothing: it checks the whole file and throws
// Error(kBadInput) with file, tensor and offset. Immutable, so any thread may read. The views live as long as
// this object. Files of other writers may hold unaligned data: copy, do not cast. Accepted 16-bit tensors
// appear as float32; read them with read_elements().
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path, HalfFloats halves = HalfFloats::kRefused);
  explicit SafetensorsFile(MappedFile file, HalfFloats halves = HalfFloats::kRefused);

  const std::filesystem::path& path() const { return file_.path(); }
  const TensorIndex& index() const { return index_; }
  std::span<const TensorView> tensors() const { return index_.all(); }
  const TensorView& tensor(const std::string& name) const { return index_.tensor(name); }
  const Metadata& metadata() const { return metadata_; }

 private:
  MappedFile file_;
  TensorIndex index_;
  Metadata metadata_;
};

}  // namespace distbelief::checkpoint
