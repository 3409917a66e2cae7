#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/data/image/decoder.h"
#include "distbelief/data/registry.h"

// WebDataset: samples in tar files called shards. Consecutive files whose names agree up to the first dot
// form one sample: 0001.jpg and 0001.cls, or 0001.png and 0001.json.
namespace distbelief::data {

// The location of a sample's image in a shard, and its class: a number, or the index of the class name.
struct ShardSample {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t shard = 0;
  std::int32_t label = 0;
};

struct ShardIndex {
  std::vector<std::filesystem::path> shards;
  std::vector<ShardSample> samples;
  std::int64_t classes = 0;          // the largest label plus one
  std::vector<std::string> names{};  // class names, sorted; empty when classes are numbers
};

// The number of classes, and their names if they have any.
struct ClassList {
  std::int64_t count = 0;
  std::vector<std::string> names{};
};

// Reads all headers and labels of the shards, but no images. `json_key` names the class in .json files.
// Throws as index_tar does, and Error(kBadInput) with shard and byte for a sample without image or label, and
// for shards that mix numbered and named classes.
ShardIndex index_shards(std::vector<std::filesystem::path> shards, const std::string& json_key);

// Guesses the key of the class in the .json files from the first sample. Returns "label" when the sample has
// a .cls file or no .json. Throws Error(kBadInput) with the keys found when none fits.
std::string likely_json_key(const std::vector<std::filesystem::path>& shards);

// Images stay in the shards; memory is 24 bytes per sample.
class WebDatasetSource : public Source {
 public:
  WebDatasetSource(std::shared_ptr<const ShardIndex> index, std::vector<ShardSample> samples,
                   const ImageSettings& settings, const ClassList& classes);
  std::uint64_t size() const override { return samples_.size(); }
  void read(std::uint64_t index, void* input, void* target) const override;
  void read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                    void* target) const override;

 private:
  std::shared_ptr<const ShardIndex> index_;
  std::vector<ShardSample> samples_;
  ImageSettings settings_;
};

// The tar files of a folder in order, or the file itself.
std::vector<std::filesystem::path> find_shards(const std::filesystem::path& path);

DataSetEntry webdataset_entry();

}  // namespace distbelief::data
