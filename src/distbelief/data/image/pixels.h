#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace distbelief::data {

// A decoded picture: rows from the top, pixels from the left, interleaved channels. Refilling it reuses its
// memory.
struct Pixels {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t channels = 3;  // 3: red, green, blue; 1: grey
  std::vector<std::uint8_t> bytes;

  std::size_t row_bytes() const { return std::size_t{width} * channels; }
  const std::uint8_t* row(std::size_t y) const { return bytes.data() + y * row_bytes(); }
};

struct ImageSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

// A defect of an image and the byte where it is. The caller that knows the file converts it to an Error.
class ImageFault : public std::runtime_error {
 public:
  ImageFault(std::uint64_t offset, const std::string& reason) : std::runtime_error(reason), offset_(offset) {}
  std::uint64_t offset() const { return offset_; }

 private:
  std::uint64_t offset_;
};

// The request to a decoder.
struct DecodeRequest {
  std::uint32_t channels = 3;
  // The shorter side that the caller needs. A decoder may return a smaller picture if that is cheap, but not
  // below this side. 0: full size.
  std::uint32_t least_side = 0;
  std::uint64_t most_pixels = std::uint64_t{1} << 26;  // the limit, checked before memory is allocated
};

// Throws ImageFault when the header claims more than `most_pixels`, or no pixels.
void require_pixels(ImageSize size, std::uint64_t most_pixels, std::uint64_t offset);

// Brightness by ITU-R BT.601, in 16-bit fixed point.
constexpr std::uint8_t grey_of(std::uint32_t red, std::uint32_t green, std::uint32_t blue) {
  return static_cast<std::uint8_t>((19'595 * red + 38'470 * green + 7'471 * blue + 32'768) >> 16);
}

}  // namespace distbelief::data
