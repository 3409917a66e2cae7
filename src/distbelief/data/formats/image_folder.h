#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "distbelief/data/image/decoder.h"
#include "distbelief/data/registry.h"

// Images in a folder for each class: ROOT/cat/1.jpg, ROOT/dog/7.png.
namespace distbelief::data {

// Names alone, in one piece of memory. Sorted by class and name, so that every machine numbers them alike.
class ImageList {
 public:
  // Looks into the class folders of `root`. Given classes must be all there are; with none they are found.
  // Names that begin with a dot and files that are no images by name are passed over. Throws
  // Error(kUnavailable) for a folder that cannot be read, Error(kBadInput) for one without classes, a class
  // without images, or an unknown one.
  explicit ImageList(std::filesystem::path root, std::vector<std::string> classes = {});

  std::uint64_t size() const { return labels_.size(); }
  std::uint32_t label(std::uint64_t index) const { return labels_[index]; }
  std::filesystem::path path(std::uint64_t index) const;
  const std::vector<std::string>& classes() const { return classes_; }
  const std::filesystem::path& root() const { return root_; }

  // Those that are held out, or those that are not.
  enum class Keep { kHeldOut, kOthers };
  ImageList part(const std::vector<bool>& held_out, Keep keep) const;

 private:
  ImageList() = default;
  void add(std::uint32_t label, std::string_view name);

  std::filesystem::path root_;
  std::vector<std::string> classes_;
  std::string names_;
  std::vector<std::uint64_t> ends_;  // of each name in names_
  std::vector<std::uint32_t> labels_;
};

// Reads and decodes one file for each sample. A file that cannot be decoded is Error(kBadInput) with its name
// and byte.
class ImageFolderSource : public Source {
 public:
  ImageFolderSource(ImageList list, const ImageSettings& settings);
  std::uint64_t size() const override { return list_.size(); }
  void read(std::uint64_t index, void* input, void* target) const override;
  void read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                    void* target) const override;

 private:
  ImageList list_;
  ImageSettings settings_;
};

// The part to train on and the part to test on, by folders of these names; the second is empty when there is
// none.
struct ImageParts {
  std::filesystem::path train;
  std::filesystem::path test;
};
ImageParts find_image_parts(const std::filesystem::path& root);

DataSetEntry image_folder_entry();

}  // namespace distbelief::data
