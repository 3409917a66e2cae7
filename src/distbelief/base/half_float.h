#pragma once

#include <bit>
#include <cstdint>

// 16-bit floating-point numbers, which weights from other programs often use. float32 represents each
// exactly.
namespace distbelief {

// IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction.
constexpr float float_from_float16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits} >> 15 << 31;
  const std::uint32_t exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0)  // zero and subnormal numbers
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(float(fraction) * 0x1p-24F));
  const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// bfloat16: the upper half of a float32.
constexpr float float_from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

}  // namespace distbelief
