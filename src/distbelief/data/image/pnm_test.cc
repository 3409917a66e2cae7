#include "distbelief/data/image/pnm.h"

#include <gtest/gtest.h>

#include "distbelief/data/image/decoder.h"

namespace distbelief::data {
namespace {

std::span<const std::uint8_t> pnm_bytes(const std::string& file) {
  return {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
}

Pixels pnm_pixels(const std::string& file, std::uint32_t channels) {
  Pixels out;
  decode_pnm(pnm_bytes(file), {.channels = channels, .most_pixels = 1000}, out);
  return out;
}

// Returns the fault and its byte.
std::string pnm_fault(const std::string& file) {
  try {
    pnm_pixels(file, 1);
  } catch (const ImageFault& fault) {
    return fault.what() + (", byte " + std::to_string(fault.offset()));
  }
  return "accepted";
}

TEST(Pnm, GreyAndColourBecomeEachOther) {
  const std::string grey = std::string("P5\n# made by hand\n2 1 # wide\n255\n") + "\x0A\x14";
  EXPECT_EQ(pnm_pixels(grey, 1).bytes, (std::vector<std::uint8_t>{10, 20}));
  EXPECT_EQ(pnm_pixels(grey, 3).bytes, (std::vector<std::uint8_t>{10, 10, 10, 20, 20, 20}));
  const std::string colour = std::string("P6 1 2 255\n") + "\x64\x64\x64\xFF\x01\x01";
  EXPECT_EQ(pnm_pixels(colour, 3).bytes, (std::vector<std::uint8_t>{100, 100, 100, 255, 1, 1}));
  EXPECT_EQ(pnm_pixels(colour, 1).bytes, (std::vector<std::uint8_t>{100, 77}));
  EXPECT_EQ(pnm_size(pnm_bytes(colour)).height, 2U);
}

TEST(Pnm, IsKnownByItsFirstBytes) {
  EXPECT_TRUE(is_pnm(pnm_bytes("P5 1 1 255\nx")));
  EXPECT_TRUE(is_pnm(pnm_bytes("P6#")));
  for (const char* other : {"", "P", "P5", "P4 1 1", "P55 1", "PNG"}) EXPECT_FALSE(is_pnm(pnm_bytes(other)));
  std::vector<std::uint8_t> planes(4);
  ImageDecoder().cover(pnm_bytes("P5 2 2 255\nabcd"), 1, {.width = 2, .height = 2}, planes.data());
  EXPECT_EQ(planes, (std::vector<std::uint8_t>{'a', 'b', 'c', 'd'}));
}

TEST(Pnm, DamagedFilesAreRefusedWithTheByte) {
  EXPECT_EQ(pnm_fault("P5 4 4 255\nabc"),
            "damaged PNM: it ends after 14 bytes, its header wants 27, byte 14");
  EXPECT_EQ(pnm_fault("P5 4 x"), "damaged PNM: its header has no number where one belongs, byte 5");
  EXPECT_EQ(pnm_fault("P5 #no end"), "damaged PNM: its header has no number where one belongs, byte 10");
  EXPECT_EQ(pnm_fault("P5 1 1 65535\nab"), "PNM whose values go to 65535; wanted is 255, byte 12");
  EXPECT_EQ(pnm_fault("P5 1 1 255"), "damaged PNM: a blank is wanted between header and pixels, byte 10");
  EXPECT_NE(pnm_fault("P6 99999999 99999999 255\n").find("99999999"), std::string::npos);
  EXPECT_NE(pnm_fault("P5 0 7 255\n"), "accepted");
}

TEST(Pnm, CoversOtherProportionsFromTheMiddle) {
  const FitPlan wide = plan_cover({.width = 40, .height = 10}, {.width = 10, .height = 10});
  EXPECT_EQ(wide.across, (FitAxis{.source = 40, .resized = 40, .first = 15, .outputs = 10}));
  EXPECT_EQ(wide.down, (FitAxis{.source = 10, .resized = 10, .first = 0, .outputs = 10}));
  const FitPlan high = plan_cover({.width = 10, .height = 40}, {.width = 20, .height = 10});
  EXPECT_EQ(high.across, (FitAxis{.source = 10, .resized = 20, .first = 0, .outputs = 20}));
  EXPECT_EQ(high.down, (FitAxis{.source = 40, .resized = 80, .first = 35, .outputs = 10}));
}

}  // namespace
}  // namespace distbelief::data
