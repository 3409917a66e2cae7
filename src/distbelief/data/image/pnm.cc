#include "distbelief/data/image/pnm.h"

#include <fmt/format.h>

#include <algorithm>

namespace distbelief::data {
namespace {

bool is_blank(std::uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

struct PnmHeader {
  std::uint32_t channels = 1;
  ImageSize size{};
  std::size_t end = 0;  // offset of the first pixel
};

// Reads the numbers of a header one after the other.
class PnmNumbers {
 public:
  explicit PnmNumbers(std::span<const std::uint8_t> file) : file_(file) {}

  std::uint32_t next() {
    constexpr int kMostDigits = 9;
    pass_blanks();
    std::uint32_t value = 0;
    int digits = 0;
    for (; at_ < file_.size() && file_[at_] >= '0' && file_[at_] <= '9' && digits < kMostDigits;
         ++at_, ++digits)
      value = 10 * value + (file_[at_] - '0');
    if (digits == 0) throw ImageFault(at_, "damaged PNM: its header has no number where one belongs");
    return value;
  }
  std::size_t at() const { return at_; }

 private:
  void pass_blanks() {
    while (at_ < file_.size() && (is_blank(file_[at_]) || file_[at_] == '#')) {
      const bool comment = file_[at_] == '#';
      while (comment && at_ < file_.size() && file_[at_] != '\n') ++at_;
      if (at_ < file_.size()) ++at_;
    }
  }

  std::span<const std::uint8_t> file_;
  std::size_t at_ = 2;
};

PnmHeader read_pnm_header(std::span<const std::uint8_t> file) {
  PnmNumbers numbers(file);
  PnmHeader header{.channels = file[1] == '5' ? 1U : 3U};
  header.size.width = numbers.next();
  header.size.height = numbers.next();
  if (const std::uint32_t most = numbers.next(); most != 255)
    throw ImageFault(numbers.at(), fmt::format("PNM whose values go to {}; wanted is 255", most));
  if (numbers.at() >= file.size() || !is_blank(file[numbers.at()]))
    throw ImageFault(numbers.at(), "damaged PNM: a blank is wanted between header and pixels");
  header.end = numbers.at() + 1;
  return header;
}

}  // namespace

bool is_pnm(std::span<const std::uint8_t> file) {
  return file.size() >= 3 && file[0] == 'P' && (file[1] == '5' || file[1] == '6') &&
         (is_blank(file[2]) || file[2] == '#');
}

void decode_pnm(std::span<const std::uint8_t> file, const DecodeRequest& request, Pixels& out) {
  const PnmHeader header = read_pnm_header(file);
  require_pixels(header.size, request.most_pixels, header.end);
  const std::size_t count = std::size_t{header.size.width} * header.size.height;
  if (file.size() - header.end < count * header.channels)
    throw ImageFault(file.size(), fmt::format("damaged PNM: it ends after {} bytes, its header wants {}",
                                              file.size(), header.end + count * header.channels));
  out.width = header.size.width;
  out.height = header.size.height;
  out.channels = request.channels;
  out.bytes.resize(count * request.channels);
  const std::uint8_t* from = file.data() + header.end;
  if (header.channels == request.channels) {
    std::copy_n(from, out.bytes.size(), out.bytes.data());
    return;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (request.channels == 1)
      out.bytes[i] = grey_of(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
    else
      std::fill_n(out.bytes.data() + 3 * i, 3, from[i]);
}

ImageSize pnm_size(std::span<const std::uint8_t> file) { return read_pnm_header(file).size; }

}  // namespace distbelief::data
