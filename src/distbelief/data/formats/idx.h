#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "distbelief/data/source.h"

// IDX, the format of MNIST and its kin: bytes 0 0 type rank, then a big-endian uint32 for each
// dimension, then the elements. Only unsigned bytes (type 8) are read. Plain or gzip.
namespace distbelief::data {

struct IdxArray {
  Shape shape;
  std::vector<std::uint8_t> elements;
  std::uint64_t elements_offset = 0;  // byte offset of the first element in the decompressed content
};

// Throws Error(kUnavailable) when the file cannot be read, and Error(kBadInput) with file and byte offset
// when it is not IDX, has another rank, or is shorter or longer than its dimensions say. Memory follows the
// bytes in the file, not the size that the header claims.
IdxArray read_idx(const std::filesystem::path& path, std::size_t rank);

// Properties of the data set that its files do not contain.
struct IdxTraits {
  std::int64_t classes = 10;
  float mean = 0.0F;
  float deviation = 1.0F;
  std::vector<std::string> class_names{};
};

// Grey images and their classes, decoded in memory.
class IdxSource : public Source {
 public:
  IdxSource(const std::filesystem::path& images, const std::filesystem::path& labels,
            const IdxTraits& traits);

  std::uint64_t size() const override { return labels_.elements.size(); }
  void read(std::uint64_t index, void* input, void* target) const override;
  void read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                    void* target) const override;
  void expect(std::uint64_t index) const override;

 private:
  IdxArray images_;
  IdxArray labels_;
  std::size_t image_bytes_;
};

// Opens the usual four files (train-images-idx3-ubyte and so on, each plain or .gz) in `folder`. Throws
// Error(kUnavailable) for a missing file; the message ends with `advice` on where to get it. Throws
// Error(kBadInput) when training and test images have different shapes.
DataSet open_idx_folder(const std::filesystem::path& folder, const IdxTraits& traits,
                        const std::string& advice);

}  // namespace distbelief::data
