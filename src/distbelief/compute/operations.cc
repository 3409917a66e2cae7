#include "distbelief/compute/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "distbelief/base/error.h"
#include "distbelief/base/simd.h"
#include "distbelief/base/vector.h"

namespace distbelief::compute {
namespace {

using Does = Operation::Kind;

constexpr std::size_t kAtATime = 1024;  // elements
constexpr std::size_t kSums = 8;        // partial sums of a dot

DISTBELIEF_MULTIVERSION void add_scaled(float* target, float factor, const float* source, std::size_t count) {
  DISTBELIEF_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) target[i] = std::fma(factor, source[i], target[i]);
}

// Products of two floats are exact in double.
DISTBELIEF_MULTIVERSION void add_products(double* sums, const float* left, const float* right,
                                          std::size_t count) {
  std::size_t at = 0;
  for (; at + kSums <= count; at += kSums)
    for (std::size_t i = 0; i < kSums; ++i) sums[i] += double(left[at + i]) * double(right[at + i]);
  for (std::size_t i = 0; at + i < count; ++i) sums[i] += double(left[at + i]) * double(right[at + i]);
}

bool gives_number(const Operation& operation) {
  return operation.kind == Does::kDot || operation.kind == Does::kCollect;
}

using Sums = std::array<double, kSums>;

void run_block(const Operation& operation, std::span<float* const> vectors, std::size_t begin,
               std::size_t count, const float* collected, Sums& sums) {
  float* const target = vectors[std::size_t(operation.target)] + begin;
  const float* const source = vectors[std::size_t(operation.source)] + begin;
  switch (operation.kind) {
    case Does::kCopy: std::memmove(target, source, count * sizeof(float)); return;
    case Does::kScale: scale(target, float(operation.factor), count); return;
    case Does::kAxpy: add_scaled(target, float(operation.factor), source, count); return;
    case Does::kDot: add_products(sums.data(), target, source, count); return;
    case Does::kCollect: std::memcpy(target, collected + begin, count * sizeof(float)); return;
  }
}

}  // namespace

void require_sound(std::span<const Operation> operations, std::size_t vectors) {
  if (operations.empty() || operations.size() > kMaxOperations)
    throw Error(ErrorCode::kBadInput,
                fmt::format("a command has 1 to {} operations, found {}", kMaxOperations, operations.size()));
  // Vectors are scaled in float, where a larger factor would be infinite.
  constexpr double kMostFactor = std::numeric_limits<float>::max();
  for (const Operation& operation : operations) {
    const auto is_known = [&](std::int32_t vector) { return vector >= 0 && std::size_t(vector) < vectors; };
    if (operation.kind < Does::kCopy || operation.kind > Does::kCollect)
      throw Error(ErrorCode::kBadInput, fmt::format("there is no operation {}", int(operation.kind)));
    if (!is_known(operation.target) || !is_known(operation.source) ||
        !(std::abs(operation.factor) <= kMostFactor))
      throw Error(ErrorCode::kBadInput,
                  fmt::format("an operation on vectors {} and {} of {} with factor {}", operation.target,
                              operation.source, vectors, operation.factor));
  }
}

bool has_collect(std::span<const Operation> operations) {
  return std::ranges::any_of(operations, [](const Operation& one) { return one.kind == Does::kCollect; });
}

std::vector<double> run_operations(std::span<const Operation> operations, std::span<float* const> vectors,
                                   std::size_t count, const Collected& collected) {
  std::vector<Sums> sums(operations.size());
  for (std::size_t begin = 0; begin < count; begin += kAtATime)
    for (std::size_t i = 0; i < operations.size(); ++i)
      run_block(operations[i], vectors, begin, std::min(kAtATime, count - begin), collected.sum, sums[i]);
  std::vector<double> numbers;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (operations[i].kind == Does::kCollect) numbers.push_back(collected.loss);
    if (operations[i].kind != Does::kDot) continue;
    double sum = 0;
    for (const double one : sums[i]) sum += one;
    numbers.push_back(sum);
  }
  return numbers;
}

std::vector<double> over_slices(std::span<const Operation> operations,
                                const std::vector<std::vector<double>>& slices) {
  std::vector<double> numbers = slices.at(0);
  std::vector<Does> kinds;
  for (const Operation& operation : operations)
    if (gives_number(operation)) kinds.push_back(operation.kind);
  for (const std::vector<double>& slice : slices)
    if (slice.size() != kinds.size())
      throw Error(ErrorCode::kInternal,
                  fmt::format("{} numbers of a command that gives {}", slice.size(), kinds.size()));
  for (std::size_t s = 1; s < slices.size(); ++s)
    for (std::size_t i = 0; i < kinds.size(); ++i)
      if (kinds[i] == Does::kDot) numbers[i] += slices[s][i];
  return numbers;
}

}  // namespace distbelief::compute
