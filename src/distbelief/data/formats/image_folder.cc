#include "distbelief/data/formats/image_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/data/io/random_access_file.h"
#include "distbelief/data/known_set.h"
#include "distbelief/data/pipeline/held_out.h"

namespace distbelief::data {
namespace {

// The names in a folder for which `passes` is true, sorted.
template <typename Passes>
std::vector<std::string> sorted_names(const std::filesystem::path& folder, Passes passes) {
  std::vector<std::string> names;
  try {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::string name = entry.path().filename().string();
      if (!name.starts_with('.') && passes(entry)) names.push_back(std::move(name));
    }
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot read folder '{}': {}", folder.string(), error.code().message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> folders_in(const std::filesystem::path& folder) {
  return sorted_names(folder, [](const auto& entry) { return entry.is_directory(); });
}

void require_known(const std::filesystem::path& root, const std::vector<std::string>& found,
                   const std::vector<std::string>& classes) {
  for (const std::string& name : found)
    if (!std::binary_search(classes.begin(), classes.end(), name))
      throw Error(ErrorCode::kBadInput,
                  fmt::format("'{}' has a class '{}' that the images to train on have not; they have {}",
                              root.string(), name, fmt::join(classes, ", ")));
}

Error no_images(const std::filesystem::path& root, const std::string& name) {
  const std::filesystem::path folder = root / name;
  const std::vector<std::string> inner = folders_in(folder);
  if (inner.empty())
    return Error(ErrorCode::kBadInput,
                 fmt::format("'{}' has no .jpg, .jpeg or .png file; remove the folder, or is "
                             "its parent not the one with the classes?",
                             folder.string()));
  return Error(
      ErrorCode::kBadInput,
      fmt::format("'{}' has no .jpg, .jpeg or .png file but {} folder{}, such as '{}'; the folders in "
                  "'{}' are the classes, and images stand in them: give '{}' if its folders are the "
                  "classes, otherwise move all images of class '{}' up into '{}'",
                  folder.string(), inner.size(), inner.size() == 1 ? "" : "s", inner.front(), root.string(),
                  folder.string(), name, folder.string()));
}

// Without `classes` the training folder defines them.
DataSet open_images_as(const DataConfig& config, const OptionMap& options,
                       const std::vector<std::string>& classes) {
  if (config.path.empty())
    throw Error(ErrorCode::kUnavailable, "set data.path to a folder with a folder of images for each class");
  const ImageSettings settings = image_settings("data set 'image_folder'", options);
  const auto learnt = std::make_shared<const Learnt>(Learnt{.images = settings});
  const ImageParts parts = find_image_parts(config.path);
  ImageList train(parts.train, classes);
  if (!parts.test.empty()) {
    ImageList test(parts.test, train.classes());
    return {std::make_unique<ImageFolderSource>(std::move(train), settings),
            std::make_unique<ImageFolderSource>(std::move(test), settings), learnt};
  }
  const std::vector<bool> held = hold_out(train.size(), options);
  return {std::make_unique<ImageFolderSource>(train.part(held, ImageList::Keep::kOthers), settings),
          std::make_unique<ImageFolderSource>(train.part(held, ImageList::Keep::kHeldOut), settings), learnt,
          held.size()};
}

// "train" may be a class (photographs of trains): then the folder contains images and no folders.
bool is_class_folder(const std::filesystem::path& folder) {
  return folders_in(folder).empty() &&
         !sorted_names(folder, [](const auto& entry) { return has_image_ending(entry.path()); }).empty();
}

DataSet open_image_folder(const DataConfig& config, const OptionMap& options) {
  return open_images_as(config, options, {});
}

DataSet reopen_image_folder(const DataConfig& config, const OptionMap& options, const KnownSet& known) {
  return open_images_as(config, options, known.spec.class_names);
}

std::vector<OptionSpec> image_folder_options() {
  std::vector<OptionSpec> options = image_options();
  for (OptionSpec& held : held_out_options()) options.push_back(std::move(held));
  return options;
}

}  // namespace

ImageList::ImageList(std::filesystem::path root, std::vector<std::string> classes) : root_(std::move(root)) {
  const std::vector<std::string> found = folders_in(root_);
  const bool are_known = !classes.empty();
  classes_ = are_known ? std::move(classes) : found;
  require_known(root_, found, classes_);
  for (const std::string& name : found) {
    const auto label = static_cast<std::uint32_t>(std::lower_bound(classes_.begin(), classes_.end(), name) -
                                                  classes_.begin());
    const std::uint64_t before = size();
    for (const std::string& file : sorted_names(root_ / name, [](const auto& entry) {
           return has_image_ending(entry.path()) && entry.is_regular_file();
         }))
      add(label, file);
    if (size() == before) throw no_images(root_, name);
  }
  if (size() == 0 && are_known)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("'{}' has no folders of images; it wants one for each class, as the images to train on "
                    "have: {} (where the classes of these images are not known, give the folder of those to "
                    "train on as data.path, and a tenth of them is tested on)",
                    root_.string(), fmt::join(classes_, ", ")));
  if (classes_.size() < 2 || size() == 0)
    throw Error(ErrorCode::kBadInput,
                fmt::format("'{}' must have a folder of images for each of two or more classes, found {}",
                            root_.string(), classes_.size()));
}

void ImageList::add(std::uint32_t label, std::string_view name) {
  names_ += name;
  ends_.push_back(names_.size());
  labels_.push_back(label);
}

std::filesystem::path ImageList::path(std::uint64_t index) const {
  const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
  return root_ / classes_[labels_[index]] / std::string_view(names_).substr(begin, ends_[index] - begin);
}

ImageList ImageList::part(const std::vector<bool>& held_out, Keep keep) const {
  ImageList kept;
  kept.root_ = root_;
  kept.classes_ = classes_;
  for (std::uint64_t i = 0, begin = 0; i < size(); begin = ends_[i], ++i)
    if (held_out[i] == (keep == Keep::kHeldOut))
      kept.add(labels_[i], std::string_view(names_).substr(begin, ends_[i] - begin));
  return kept;
}

ImageFolderSource::ImageFolderSource(ImageList list, const ImageSettings& settings)
    : list_(std::move(list)),
      settings_(settings) {
  spec_ = image_spec(settings_, static_cast<std::int64_t>(list_.classes().size()));
  spec_.class_names = list_.classes();
}

void ImageFolderSource::read(std::uint64_t index, void* input, void* target) const {
  DISTBELIEF_INVARIANT(index < size());
  ImageDecoder& decoder = thread_decoder();
  const std::filesystem::path path = list_.path(index);
  read_whole(path, kMostImageBytes, decoder.file_space());
  try {
    decoder.decode(decoder.file_space(), settings_, static_cast<std::uint8_t*>(input));
  } catch (const ImageFault& fault) {
    throw Error(ErrorCode::kBadInput, fmt::format("'{}', byte {}: {}; replace or remove the file",
                                                  path.string(), fault.offset(), fault.what()));
  }
  *static_cast<std::int64_t*>(target) = list_.label(index);
}

void ImageFolderSource::read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count,
                                     void* input, void* target) const {
  if (count > 0) return Source::read_columns(index, begin, count, input, target);
  *static_cast<std::int64_t*>(target) = list_.label(index);
}

ImageParts find_image_parts(const std::filesystem::path& root) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(root / "train", ignored)) return {root, {}};
  if (is_class_folder(root / "train")) return {root, {}};
  for (const char* name : {"test", "val", "valid", "validation"})
    if (std::filesystem::is_directory(root / name, ignored)) return {root / "train", root / name};
  // Alone, "train" is the training part. Beside class folders it must be a class itself.
  for (const std::string& name : folders_in(root))
    if (name != "train" && is_class_folder(root / name)) return {root, {}};
  return {root / "train", {}};
}

DataSetEntry image_folder_entry() {
  return {"image_folder",         "images of your own, JPEG or PNG, in a folder for each class",
          image_folder_options(), open_image_folder,
          reopen_image_folder,    SampleOrder::kByClass};
}

}  // namespace distbelief::data
