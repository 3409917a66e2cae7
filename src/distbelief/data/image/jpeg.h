#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "distbelief/data/image/pixels.h"
#include "distbelief/data/image/ycc.h"

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
  // The same before colours are mixed, for who wants a part of it: decoding is four fifths of the work.
  // False, and nothing done, unless the picture's shorter side is request.least_side already (or that is 0),
  // in colour, and kept in one of the ways that YccPicture knows.
  bool decode_apart(std::span<const std::uint8_t> file, const DecodeRequest& request, YccPicture& out);
  ImageSize size(std::span<const std::uint8_t> file);  // the header alone

 private:
  struct State;  // libjpeg's, kept out of sight: its header wants macros of its own
  std::unique_ptr<State> state_;
};

}  // namespace distbelief::data
