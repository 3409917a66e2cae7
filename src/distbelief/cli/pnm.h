#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distbelief::cli {

struct ImageShape {
  int channels = 1;
  int height = 0;
  int width = 0;
};

// [channels, height, width].
struct PlanarPixels {
  ImageShape shape;
  std::vector<std::uint8_t> pixels{};
};

// A binary PGM or PPM file (P5, P6; 8 bits). Throws Error(kBadInput) with file and what is wrong with it;
// memory follows the bytes that are there.
PlanarPixels read_pnm(const std::string& path);

// Grey or colour as wanted, the largest part of the wanted proportions from its middle, averaged or repeated
// to the wanted size. Pure.
PlanarPixels fit(const PlanarPixels& image, ImageShape wanted);

}  // namespace distbelief::cli
