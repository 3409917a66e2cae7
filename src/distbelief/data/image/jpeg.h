#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "distbelief/data/image/pixels.h"

namespace distbelief::data {

// JPEG by libjpeg-turbo: baseline and progressive; grey, YCbCr, RGB, and CMYK as Adobe writes it. Larger
// pictures are decoded at 1/2, 1/4 or 1/8 where that is enough. Results have the same bits on every machine
// (slow integer DCT). Holds the library's state for the next image. One thread.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Throws ImageFault for what is not JPEG, is damaged or cut short, is too large, or has suspiciously many
  // scans.
  void decode(std::span<const std::uint8_t> file, const DecodeRequest& request, Pixels& out);
  ImageSize size(std::span<const std::uint8_t> file);  // the header alone

 private:
  struct State;  // libjpeg's, kept out of sight: its header wants macros of its own
  std::unique_ptr<State> state_;
};

}  // namespace distbelief::data
