#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/data/image/fit.h"
#include "distbelief/data/image/jpeg.h"
#include "distbelief/data/image/pixels.h"
#include "distbelief/data/image/ycc.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

// How image files become samples of one shape; the options of every source that decodes images.
struct ImageSettings {
  FitSize size;
  std::uint32_t channels = 3;
  std::uint64_t most_pixels = std::uint64_t{1} << 26;
};
std::vector<OptionSpec> image_options();
// `owner` ("data set 'image_folder'") begins the message of the Error(kBadInput) for invalid values.
ImageSettings image_settings(const std::string& owner, const OptionMap& options);
SampleSpec image_spec(const ImageSettings& settings, std::int64_t classes);

inline constexpr std::uint64_t kMostImageBytes = std::uint64_t{256} << 20;  // limit for one file

// Decodes a file to a sample: JPEG, PNG or binary PNM, recognised by the first bytes whatever the name. Turns
// a JPEG upright as its EXIF orientation says. Keeps working memory. Use from one thread.
class ImageDecoder {
 public:
  // Writes channels x crop x crop bytes. Throws ImageFault.
  void decode(std::span<const std::uint8_t> file, const ImageSettings& settings, std::uint8_t* planes);
  // Writes channels x height x width bytes: the largest centred crop with the proportions of `size`, resized
  // to it.
  void cover(std::span<const std::uint8_t> file, std::uint32_t channels, ImageSize size,
             std::uint8_t* planes);
  ImageSize size(std::span<const std::uint8_t> file);

  std::vector<std::uint8_t>& file_space() { return file_; }  // buffer into which the caller may read a file

 private:
  void read(std::span<const std::uint8_t> file, const DecodeRequest& request);

  JpegDecoder jpeg_;
  Fitter fitter_;
  Pixels pixels_;
  YccMixer mixer_;
  YccPicture apart_;
  std::vector<std::uint8_t*> rows_;
  std::vector<std::uint8_t> file_;
  std::vector<std::uint8_t> turned_;
};

// The decoder of the calling thread: Source::read() is called by many threads and must not allocate.
ImageDecoder& thread_decoder();

// Whether the name ends in .jpg, .jpeg or .png, in any case.
bool has_image_ending(const std::filesystem::path& path);

}  // namespace distbelief::data
