#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "distbelief/base/operation.h"

// What holders of slices do with operations. Pure.
namespace distbelief::compute {

inline constexpr std::size_t kMaxOperations = 1024;  // of one command

// Throws Error(kBadInput) for a vector that there is not, a factor that is no number, too many.
void require_sound(std::span<const Operation> operations, std::size_t vectors);
bool has_collect(std::span<const Operation> operations);

// What kCollect collects.
struct Collected {
  const float* sum = nullptr;
  double loss = 0;
};
// Does them one after another on vectors[i][0, count), block by block so that what they share stays in the
// cache. Gives the number of each dot and collect, in order. A dot is added up in double, eight sums side by
// side, in the order of the elements: it has the same bits on any machine.
std::vector<double> run_operations(std::span<const Operation> operations, std::span<float* const> vectors,
                                   std::size_t count, const Collected& collected);

// What all slices' numbers are together, in the order of slices: dots are added, of losses, which every slice
// knows, the first one counts.
std::vector<double> over_slices(std::span<const Operation> operations,
                                const std::vector<std::vector<double>>& slices);

}  // namespace distbelief::compute
