#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/data/image/decoder.h"
#include "distbelief/data/registry.h"

// WebDataset: samples in tar files, "shards". Files that follow each other and share their name up to the
// first dot are one sample: 0001.jpg and 0001.cls, or 0001.png and 0001.json.
namespace distbelief::data {

// A sample's image within a shard, and its class: a number, or where classes have names the name's place.
struct ShardSample {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t shard = 0;
  std::int32_t label = 0;
};

struct ShardIndex {
  std::vector<std::filesystem::path> shards;
  std::vector<ShardSample> samples;
  std::int64_t classes = 0;          // one more than the largest label
  std::vector<std::string> names{};  // of classes that have names, sorted; otherwise none
};

// How many classes there are, and what they are called where they have names.
struct ClassList {
  std::int64_t count = 0;
  std::vector<std::string> names{};
};

// Reads every header and label of the shards, none of the images. `json_key` names the class in .json files.
// Throws as index_tar does, and Error(kBadInput) with shard and byte for samples without image or label, and
// where some classes are numbers and others names.
ShardIndex index_shards(std::vector<std::filesystem::path> shards, const std::string& json_key);

// What the class seems to be called in the .json files of these shards, from the first sample. "label" where
// there is a .cls beside it or no .json. Throws Error(kBadInput) with what there is when nothing will do.
std::string likely_json_key(const std::vector<std::filesystem::path>& shards);

// Images stay in the shards; memory is 24 bytes a sample.
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
