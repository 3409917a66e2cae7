#include "distbelief/data/image/orientation.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace distbelief::data {
namespace {

// Reads numbers in the given byte order; positions beyond the end yield nothing.
class TiffBytes {
 public:
  TiffBytes(std::span<const std::uint8_t> bytes, bool little) : bytes_(bytes), little_(little) {}

  std::optional<std::uint32_t> number(std::uint64_t at, std::size_t width) const {
    if (at > bytes_.size() || bytes_.size() - at < width) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < width; ++i) value = value << 8 | bytes_[at + (little_ ? width - 1 - i : i)];
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool little_;
};

constexpr std::uint32_t kOrientationTag = 0x0112, kShort = 3;
constexpr std::uint64_t kEntryBytes = 12;

// Looks up the tag in the first directory of a TIFF structure.
std::optional<std::uint32_t> tiff_orientation(std::span<const std::uint8_t> tiff) {
  if (tiff.size() < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M')) return std::nullopt;
  const TiffBytes bytes(tiff, tiff[0] == 'I');
  if (bytes.number(2, 2) != 42U) return std::nullopt;
  const std::uint64_t directory = *bytes.number(4, 4);
  const std::uint32_t entries = bytes.number(directory, 2).value_or(0);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::uint64_t at = directory + 2 + i * kEntryBytes;
    if (bytes.number(at, 2) == kOrientationTag)
      return bytes.number(at + 2, 2) == kShort ? bytes.number(at + 8, 2) : std::nullopt;
  }
  return std::nullopt;
}

bool is_exif(std::span<const std::uint8_t> segment) {
  constexpr char kName[] = "Exif\0";  // with the literal's own terminator: six bytes
  return segment.size() > sizeof kName && std::memcmp(segment.data(), kName, sizeof kName) == 0;
}

bool swaps_sides(Orientation stored) { return stored >= Orientation::kTransposed; }

}  // namespace

Orientation exif_orientation(std::span<const std::uint8_t> jpeg) {
  constexpr std::uint8_t kScan = 0xDA, kEnd = 0xD9, kApp1 = 0xE1;
  const TiffBytes bytes(jpeg, /*little=*/false);
  for (std::size_t at = 2; jpeg.size() >= 4 && at <= jpeg.size() - 4 && jpeg[at] == 0xFF;) {
    const std::uint8_t marker = jpeg[at + 1];
    const std::uint32_t length = *bytes.number(at + 2, 2);
    if (marker == 0xFF) {  // fill byte
      ++at;
      continue;
    }
    if (marker == kScan || marker == kEnd || length < 2 || jpeg.size() - at - 2 < length) break;
    const auto segment = jpeg.subspan(at + 4, length - 2);
    if (marker == kApp1 && is_exif(segment)) {
      const std::uint32_t found = tiff_orientation(segment.subspan(6)).value_or(1);
      return found >= 1 && found <= 8 ? Orientation(found) : Orientation::kUpright;
    }
    at += 2 + length;
  }
  return Orientation::kUpright;
}

ImageSize upright_size(Orientation stored, ImageSize size) {
  return swaps_sides(stored) ? ImageSize{size.height, size.width} : size;
}

void turn_upright(Orientation stored, Pixels& picture, std::vector<std::uint8_t>& space) {
  if (stored == Orientation::kUpright) return;
  using enum Orientation;
  const bool swaps = swaps_sides(stored);
  const bool from_right =
      stored == kMirrored || stored == kUpsideDown || stored == kTransversed || stored == kTurnLeft;
  const bool from_below = stored == kUpsideDown || stored == kUpsideDownMirrored || stored == kTransversed ||
                          stored == kTurnRight;
  const ImageSize size = upright_size(stored, {picture.width, picture.height});
  space.resize(picture.bytes.size());
  std::uint8_t* to = space.data();
  for (std::uint32_t y = 0; y < size.height; ++y)
    for (std::uint32_t x = 0; x < size.width; ++x, to += picture.channels) {
      const std::uint32_t across = swaps ? y : x, down = swaps ? x : y;
      const std::uint8_t* from =
          picture.row(from_below ? picture.height - 1 - down : down) +
          std::size_t{from_right ? picture.width - 1 - across : across} * picture.channels;
      std::copy_n(from, picture.channels, to);
    }
  picture.bytes.swap(space);
  picture.width = size.width;
  picture.height = size.height;
}

}  // namespace distbelief::data
