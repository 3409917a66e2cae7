#include "distbelief/base/host_order.h"

#include <algorithm>
#include <compare>
#include <numeric>

namespace distbelief {
namespace {

// Groups that would fit on one host but span two.
struct Torn {
  int tensor = 0;
  int replicas = 0;
  auto operator<=>(const Torn&) const = default;
  void operator+=(const Torn& other) {
    tensor += other.tensor;
    replicas += other.replicas;
  }
};

int torn(int first, int workers, int size) {
  const int whole = (first + workers) / size - (first + size - 1) / size;
  return workers / size - std::max(0, whole);
}

Torn torn(int first, int workers, const RankGroups& groups) {
  return {torn(first, workers, groups.tensor), torn(first, workers, groups.tensor * groups.pipeline)};
}

Torn torn(const std::vector<int>& workers, const std::vector<std::size_t>& order, const RankGroups& groups) {
  Torn sum;
  int first = 0;
  for (const std::size_t host : order) {
    sum += torn(first, workers[host], groups);
    first += workers[host];
  }
  return sum;
}

// Repeatedly takes the largest host among those that split the fewest groups.
std::vector<std::size_t> greedy_order(const std::vector<int>& workers, std::vector<std::size_t> left,
                                      const RankGroups& groups) {
  std::ranges::stable_sort(left, [&](std::size_t a, std::size_t b) { return workers[a] > workers[b]; });
  std::vector<std::size_t> order;
  int first = 0;
  while (!left.empty()) {
    const auto best = std::ranges::min_element(
        left, {}, [&](std::size_t host) { return torn(first, workers[host], groups); });
    order.push_back(*best);
    first += workers[*best];
    left.erase(best);
  }
  return order;
}

}  // namespace

std::vector<std::size_t> host_order(const std::vector<int>& workers, const RankGroups& groups) {
  std::vector<std::size_t> given(workers.size());
  std::iota(given.begin(), given.end(), std::size_t(0));
  if (torn(workers, given, groups) == Torn{}) return given;
  std::vector<std::size_t> other = greedy_order(workers, given, groups);
  return torn(workers, other, groups) < torn(workers, given, groups) ? other : given;
}

}  // namespace distbelief
