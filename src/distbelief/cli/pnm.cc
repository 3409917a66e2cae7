#include "distbelief/cli/pnm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>

#include "distbelief/base/error.h"

namespace distbelief::cli {
namespace {

constexpr std::size_t kMostPixels = std::size_t{1} << 26;

class PnmHeader {
 public:
  PnmHeader(const std::string& bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  int number() {
    while (at_ < bytes_.size() && (std::isspace(byte()) != 0 || bytes_[at_] == '#'))
      at_ = bytes_[at_] == '#' ? std::min(bytes_.find('\n', at_), bytes_.size()) : at_ + 1;
    int value = 0, digits = 0;
    for (; at_ < bytes_.size() && std::isdigit(byte()) != 0 && digits < 9; ++at_, ++digits)
      value = 10 * value + (bytes_[at_] - '0');
    if (digits == 0) refuse("its header has no number where one belongs");
    return value;
  }
  std::size_t end() const { return at_ + 1; }
  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: {} (byte {})", path_, reason, at_));
  }

 private:
  unsigned char byte() const { return static_cast<unsigned char>(bytes_[at_]); }
  const std::string& bytes_;
  const std::string& path_;
  std::size_t at_ = 2;
};

PlanarPixels with_channels(const PlanarPixels& image, int channels) {
  if (image.shape.channels == channels) return image;
  const std::size_t plane = std::size_t(image.shape.height) * std::size_t(image.shape.width);
  PlanarPixels out{{channels, image.shape.height, image.shape.width}};
  for (int channel = 0; channel < channels; ++channel)
    for (std::size_t i = 0; i < plane; ++i) {
      const auto at = [&](std::size_t c) { return int(image.pixels[c * plane + i]); };
      out.pixels.push_back(image.shape.channels == 1
                               ? image.pixels[i]
                               : std::uint8_t((299 * at(0) + 587 * at(1) + 114 * at(2) + 500) / 1000));
    }
  return out;
}

// The source positions that output position p of `count` shows.
std::pair<int, int> span_of(int p, int first, int length, int count) {
  const int begin = first + int(std::int64_t(p) * length / count);
  const int end = first + int((std::int64_t(p) + 1) * length / count);
  return {begin, std::max(end, begin + 1)};
}

}  // namespace

PlanarPixels read_pnm(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  PnmHeader header(bytes, path);
  if (bytes.size() < 8 || bytes[0] != 'P' || (bytes[1] != '5' && bytes[1] != '6'))
    header.refuse("is neither a binary PGM nor a binary PPM file");
  const int channels = bytes[1] == '5' ? 1 : 3;
  const int width = header.number(), height = header.number(), most = header.number();
  if (width < 1 || height < 1 || std::size_t(width) * std::size_t(height) > kMostPixels)
    header.refuse(fmt::format("claims {} x {} pixels", width, height));
  if (most != 255) header.refuse(fmt::format("its values go to {}; wanted is 255", most));
  const std::size_t plane = std::size_t(width) * std::size_t(height), begin = header.end();
  if (bytes.size() < begin || bytes.size() - begin < plane * std::size_t(channels))
    header.refuse(fmt::format("has {} bytes; its header wants {}", bytes.size(),
                              begin + plane * std::size_t(channels)));
  PlanarPixels image{{channels, height, width}, std::vector<std::uint8_t>(plane * std::size_t(channels))};
  for (std::size_t i = 0; i < plane; ++i)
    for (std::size_t c = 0; c < std::size_t(channels); ++c)
      image.pixels[c * plane + i] = std::uint8_t(bytes[begin + i * std::size_t(channels) + c]);
  return image;
}

PlanarPixels fit(const PlanarPixels& given, ImageShape wanted) {
  const PlanarPixels image = with_channels(given, wanted.channels);
  const ImageShape& size = image.shape;
  const std::int64_t across = std::int64_t(size.width) * wanted.height,
                     down = std::int64_t(size.height) * wanted.width;
  const int width = across > down ? std::max(1, int(down / wanted.height)) : size.width;
  const int height = across > down ? size.height : std::max(1, int(across / wanted.width));
  PlanarPixels out{wanted};
  for (int c = 0; c < wanted.channels; ++c)
    for (int y = 0; y < wanted.height; ++y)
      for (int x = 0; x < wanted.width; ++x) {
        const auto [top, bottom] = span_of(y, (size.height - height) / 2, height, wanted.height);
        const auto [left, right] = span_of(x, (size.width - width) / 2, width, wanted.width);
        std::int64_t sum = 0;
        for (int v = top; v < bottom; ++v)
          for (int u = left; u < right; ++u)
            sum += image.pixels[(std::size_t(c) * std::size_t(size.height) + std::size_t(v)) *
                                    std::size_t(size.width) +
                                std::size_t(u)];
        const std::int64_t count = std::int64_t(bottom - top) * (right - left);
        out.pixels.push_back(std::uint8_t((sum + count / 2) / count));
      }
  return out;
}

}  // namespace distbelief::cli
