#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "distbelief/data/image/pixels.h"
#include "distbelief/data/image/ycc.h"

namespace distbelief::data {

// Decodes JPEG with libjpeg-turbo: baseline and progressive; grey, YCbCr, RGB, and Adobe's CMYK. Decodes at
// 1/2, 1/4 or 1/8 of the size where that suffices. The slow integer DCT gives the same bits on every machine.
// Keeps the library's state for the next image. Use from one thread.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Throws ImageFault for a file that is not JPEG, is damaged, cut short or too large, or has suspiciously
  // many scans.
  void decode(std::span<const std::uint8_t> file, const DecodeRequest& request, Pixels& out);
  // Decodes to separate planes before colour conversion, for callers that need only a part of the picture:
  // decoding alone is four fifths of the work. Returns false and does nothing unless the shorter side already
  // equals request.least_side (or that is 0), the request is for colour, and YccPicture supports the file's
  // colour sampling.
  bool decode_apart(std::span<const std::uint8_t> file, const DecodeRequest& request, YccPicture& out);
  ImageSize size(std::span<const std::uint8_t> file);  // reads only the header

 private:
  struct State;  // libjpeg's state; its header needs macros, so it stays out of this one
  std::unique_ptr<State> state_;
};

}  // namespace distbelief::data
