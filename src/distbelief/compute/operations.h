#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "distbelief/base/operation.h"

// Runs operations on slices of vectors. Pure.
namespace distbelief::compute {

inline constexpr std::size_t kMaxOperations = 1024;  // in one command

// Throws Error(kBadInput) for an unknown vector, a factor that is not finite, or too many operations.
void require_sound(std::span<const Operation> operations, std::size_t vectors);
bool has_collect(std::span<const Operation> operations);

// The input of kCollect.
struct Collected {
  const float* sum = nullptr;
  double loss = 0;
};
// Runs the operations in order on vectors[i][0, count), block by block so that shared data stays in the
// cache. Returns the number of each dot and collect, in order. A dot is summed in double, in eight partial
// sums in element order, so it has the same bits on any machine.
std::vector<double> run_operations(std::span<const Operation> operations, std::span<float* const> vectors,
                                   std::size_t count, const Collected& collected);

// Combines the numbers of all slices in slice order: dots are added; every slice has the same loss, so the
// first counts.
std::vector<double> over_slices(std::span<const Operation> operations,
                                const std::vector<std::vector<double>>& slices);

}  // namespace distbelief::compute
