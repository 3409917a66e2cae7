#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace distbelief::data {

// A decoded picture: rows from the top, pixels from the left, channels side by side. Keeps its memory when it
// is filled again.
struct Pixels {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t channels = 3;  // red, green, blue; or 1: grey
  std::vector<std::uint8_t> bytes;

  std::size_t row_bytes() const { return std::size_t{width} * channels; }
  const std::uint8_t* row(std::size_t y) const { return bytes.data() + y * row_bytes(); }
};

struct ImageSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

// What is wrong with an image, and at which of its bytes. Whoever knows the file makes an Error of it.
class ImageFault : public std::runtime_error {
 public:
  ImageFault(std::uint64_t offset, const std::string& reason) : std::runtime_error(reason), offset_(offset) {}
  std::uint64_t offset() const { return offset_; }

 private:
  std::uint64_t offset_;
};

// What a decoder is asked for.
struct DecodeRequest {
  std::uint32_t channels = 3;
  // The shorter side that will be needed: a decoder that can make a smaller picture cheaply may, but not
  // below this. 0: as it is.
  std::uint32_t least_side = 0;
  std::uint64_t most_pixels = std::uint64_t{1} << 26;  // more are refused before memory is taken for them
};

// Throws ImageFault when the header promises more than `most_pixels`, or none.
void require_pixels(ImageSize size, std::uint64_t most_pixels, std::uint64_t offset);

// Brightness as television has it (ITU-R BT.601), in 16 bits of fixed point.
constexpr std::uint8_t grey_of(std::uint32_t red, std::uint32_t green, std::uint32_t blue) {
  return static_cast<std::uint8_t>((19'595 * red + 38'470 * green + 7'471 * blue + 32'768) >> 16);
}

}  // namespace distbelief::data
