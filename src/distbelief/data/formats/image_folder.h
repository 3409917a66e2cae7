#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "distbelief/data/image/decoder.h"
#include "distbelief/data/registry.h"

// Images in one folder per class: ROOT/cat/1.jpg, ROOT/dog/7.png.
namespace distbelief::data {

// The file names of all images, in one block of memory. They are sorted by class and name, so every machine
// numbers them alike.
class ImageList {
 public:
  // Lists the class folders of `root`. Without `classes` the folders define the classes; otherwise they must
  // be exactly `classes`. Skips names that begin with a dot and files without an image ending. Throws
  // Error(kUnavailable) for a folder that cannot be read, and Error(kBadInput) for a root without classes, a
  // class without images, or an unknown class.
  explicit ImageList(std::filesystem::path root, std::vector<std::string> classes = {});

  std::uint64_t size() const { return labels_.size(); }
  std::uint32_t label(std::uint64_t index) const { return labels_[index]; }
  std::filesystem::path path(std::uint64_t index) const;
  const std::vector<std::string>& classes() const { return classes_; }
  const std::filesystem::path& root() const { return root_; }

  // Selects the held-out images or the others.
  enum class Keep { kHeldOut, kOthers };
  ImageList part(const std::vector<bool>& held_out, Keep keep) const;

 private:
  ImageList() = default;
  void add(std::uint32_t label, std::string_view name);

  std::filesystem::path root_;
  std::vector<std::string> classes_;
  std::string names_;
  std::vector<std::uint64_t> ends_;  // end of each name in names_
  std::vector<std::uint32_t> labels_;
};

// Reads and decodes one file per sample. A file that cannot be decoded throws Error(kBadInput) with its name
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

// The folders of the training part and the test part, found by their names. `test` is empty when there is no
// such folder.
struct ImageParts {
  std::filesystem::path train;
  std::filesystem::path test;
};
ImageParts find_image_parts(const std::filesystem::path& root);

DataSetEntry image_folder_entry();

}  // namespace distbelief::data
