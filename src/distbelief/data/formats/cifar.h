#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "distbelief/data/io/random_access_file.h"
#include "distbelief/data/registry.h"

// The binary version of CIFAR: records one after the other, without headers. A record is one label byte
// (CIFAR-10) or two (CIFAR-100: coarse, then fine), then 3 x 32 x 32 bytes: the red plane, the green one, the
// blue one.
namespace distbelief::data {

struct CifarFormat {
  std::size_t label_bytes = 1;
  std::size_t label_at = 0;  // index of the label byte that holds the class
  std::int64_t classes = 10;
};

// Images stay in the files; memory is a descriptor per file and a byte per label. The constructor checks the
// length of every file and every label, and throws Error(kBadInput) with file and offset for a wrong one.
class CifarSource : public Source {
 public:
  CifarSource(const std::vector<std::filesystem::path>& files, const CifarFormat& format);

  std::uint64_t size() const override { return labels_.size(); }
  void read(std::uint64_t index, void* input, void* target) const override;
  void read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                    void* target) const override;

 private:
  struct Shard {
    RandomAccessFile file;
    std::uint64_t first;  // index of its first sample
  };
  void add(const std::filesystem::path& path);

  CifarFormat format_;
  std::vector<Shard> shards_;
  std::vector<std::uint8_t> labels_;
};

DataSetEntry cifar10_entry();
DataSetEntry cifar100_entry();

// Whether a folder has the files of CIFAR-10 or CIFAR-100.
bool has_cifar10(const std::filesystem::path& folder);
bool has_cifar100(const std::filesystem::path& folder);

}  // namespace distbelief::data
