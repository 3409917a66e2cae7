#include "distbelief/data/image/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "distbelief/base/error.h"
#include "distbelief/data/image/orientation.h"
#include "distbelief/data/image/png.h"
#include "distbelief/data/image/pnm.h"

namespace distbelief::data {
namespace {

constexpr std::int64_t kMostImageSide = 4096;

bool is_jpeg(std::span<const std::uint8_t> file) {
  return file.size() >= 3 && file[0] == 0xFF && file[1] == 0xD8 && file[2] == 0xFF;
}

ImageFault neither_kind() {
  return ImageFault(0, "neither JPEG nor PNG nor binary PNM: its first bytes are those of something else");
}

std::uint32_t side_option(const std::string& owner, const OptionMap& options, const std::string& name,
                          std::int64_t least) {
  const auto value = option<std::int64_t>(options, name);
  if (value < least || value > kMostImageSide)
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: option '{}' must be {} to {} pixels, it is {}", owner, name, least,
                            kMostImageSide, value),
                {.key = "data." + name});
  return static_cast<std::uint32_t>(value);
}

}  // namespace

std::vector<OptionSpec> image_options() {
  return {
      {"resize", std::int64_t{256}, "shorter side of an image, pixels, before it is cropped; 0: as it is"},
      {"crop", std::int64_t{224}, "side of the square that is cut from the middle, pixels"},
      {"channels", std::int64_t{3}, "3: colour; 1: grey"}};
}

ImageSettings image_settings(const std::string& owner, const OptionMap& options) {
  ImageSettings settings;
  settings.size.resize = side_option(owner, options, "resize", 0);
  settings.size.crop = side_option(owner, options, "crop", 1);
  settings.channels = static_cast<std::uint32_t>(option<std::int64_t>(options, "channels"));
  if (settings.channels != 1 && settings.channels != 3)
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: option 'channels' must be 3 or 1, it is {}", owner,
                            option<std::int64_t>(options, "channels")),
                {.key = "data.channels"});
  if (settings.size.resize != 0 && settings.size.resize < settings.size.crop)
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: option 'crop' must not exceed 'resize', found {} and {}", owner,
                            settings.size.crop, settings.size.resize),
                {.key = "data.crop"});
  return settings;
}

SampleSpec image_spec(const ImageSettings& settings, std::int64_t classes) {
  SampleSpec spec;
  spec.input_shape = {settings.channels, settings.size.crop, settings.size.crop};
  spec.classes = classes;
  // The statistics of ImageNet, which approximate those of photographs in general.
  spec.mean =
      settings.channels == 3 ? std::vector<float>{0.485F, 0.456F, 0.406F} : std::vector<float>{0.449F};
  spec.deviation =
      settings.channels == 3 ? std::vector<float>{0.229F, 0.224F, 0.225F} : std::vector<float>{0.226F};
  return spec;
}

void ImageDecoder::read(std::span<const std::uint8_t> file, const DecodeRequest& request) {
  if (is_jpeg(file)) {
    jpeg_.decode(file, request, pixels_);
    turn_upright(exif_orientation(file), pixels_, turned_);
  } else if (is_png(file)) {
    decode_png(file, request, pixels_, rows_);
  } else if (is_pnm(file)) {
    decode_pnm(file, request, pixels_);
  } else {
    throw neither_kind();
  }
}

void ImageDecoder::decode(std::span<const std::uint8_t> file, const ImageSettings& settings,
                          std::uint8_t* planes) {
  const DecodeRequest request{
      .channels = settings.channels, .least_side = settings.size.resize, .most_pixels = settings.most_pixels};
  // The common case in a training set: the picture needs no turning and no resizing.
  if (is_jpeg(file) && exif_orientation(file) == Orientation::kUpright &&
      jpeg_.decode_apart(file, request, apart_)) {
    mixer_.crop(apart_, plan_fit(apart_.size(), settings.size), planes);
    return;
  }
  read(file, request);
  fitter_.fit(pixels_, plan_fit({pixels_.width, pixels_.height}, settings.size), planes);
}

void ImageDecoder::cover(std::span<const std::uint8_t> file, std::uint32_t channels, ImageSize size,
                         std::uint8_t* planes) {
  read(file, {.channels = channels, .least_side = std::max(size.width, size.height)});
  fitter_.fit(pixels_, plan_cover({pixels_.width, pixels_.height}, size), planes);
}

ImageSize ImageDecoder::size(std::span<const std::uint8_t> file) {
  if (is_jpeg(file)) return upright_size(exif_orientation(file), jpeg_.size(file));
  if (is_png(file)) return png_size(file);
  if (is_pnm(file)) return pnm_size(file);
  throw neither_kind();
}

ImageDecoder& thread_decoder() {
  thread_local ImageDecoder decoder;
  return decoder;
}

bool has_image_ending(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

}  // namespace distbelief::data
