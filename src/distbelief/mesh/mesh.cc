#include "distbelief/mesh/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "distbelief/base/error.h"

namespace distbelief::mesh {
namespace {

constexpr int kMost = 1'000'000;  // per dimension, so that the product of three fits into 64 bits

void require_range(std::string_view name, int value, int least) {
  if (value >= least && value <= kMost) return;
  throw Error(ErrorCode::kBadInput, fmt::format("parallel.{} must be from {} to {}; found {}", name,
                                                least == 0 ? "0 (automatic)" : "1", kMost, value));
}

std::vector<int> divisors(int number) {
  std::vector<int> found;
  for (int candidate = 1; candidate <= number; ++candidate)
    if (number % candidate == 0) found.push_back(candidate);
  return found;
}

// "1, 2 or 4"
std::string alternatives(const std::vector<int>& numbers) {
  if (numbers.size() == 1) return fmt::format("{}", numbers[0]);
  return fmt::format("{} or {}", fmt::join(numbers.begin(), numbers.end() - 1, ", "), numbers.back());
}

[[noreturn]] void refuse_automatic_data(const MeshWish& wish, int workers) {
  const std::int64_t replica = std::int64_t(wish.pipeline) * wish.tensor;
  const std::int64_t below = workers / replica * replica;
  std::string advice = below > 0 ? fmt::format("take {} or {} workers", below, below + replica)
                                 : fmt::format("take {} workers", replica);
  const bool pipeline_helps = workers % wish.tensor == 0;
  const bool tensor_helps = workers % wish.pipeline == 0;
  if (pipeline_helps)
    advice += fmt::format(", or pipeline = {}", alternatives(divisors(workers / wish.tensor)));
  if (tensor_helps)
    advice += fmt::format(", or tensor = {}", alternatives(divisors(workers / wish.pipeline)));
  if (!pipeline_helps && !tensor_helps)
    advice += fmt::format(", or pipeline x tensor = {}", alternatives(divisors(workers)));
  throw Error(ErrorCode::kBadInput,
              fmt::format("parallel.pipeline {} x parallel.tensor {} does not divide {} workers; {}",
                          wish.pipeline, wish.tensor, workers, advice),
              {.key = "parallel.pipeline"});
}

[[noreturn]] void refuse_given_data(const MeshWish& wish, int workers) {
  const std::int64_t wanted = std::int64_t(wish.data) * wish.pipeline * wish.tensor;
  std::string advice = fmt::format("take {} workers", wanted);
  const auto offer = [&](std::string_view name, int value) {
    const std::int64_t others = wanted / value;
    if (workers % others == 0) advice += fmt::format(", or {} = {}", name, workers / others);
  };
  offer("data", wish.data);
  offer("pipeline", wish.pipeline);
  offer("tensor", wish.tensor);
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("parallel.data {} x parallel.pipeline {} x parallel.tensor {} is {} workers, found {}; {}",
                  wish.data, wish.pipeline, wish.tensor, wanted, workers, advice),
      {.key = "parallel.data"});
}

// The largest divisor of `number` between 1 and `most`.
int largest_divisor(int number, int most) {
  while (number % most != 0) --most;
  return most;
}

}  // namespace

MeshPlace place_of(const Mesh& mesh, int rank) {
  DISTBELIEF_INVARIANT(rank >= 0 && rank < mesh.workers());
  return {.data = rank / (mesh.tensor * mesh.pipeline),
          .pipeline = rank / mesh.tensor % mesh.pipeline,
          .tensor = rank % mesh.tensor};
}

int rank_at(const Mesh& mesh, const MeshPlace& place) {
  DISTBELIEF_INVARIANT(place.data >= 0 && place.data < mesh.data);
  DISTBELIEF_INVARIANT(place.pipeline >= 0 && place.pipeline < mesh.pipeline);
  DISTBELIEF_INVARIANT(place.tensor >= 0 && place.tensor < mesh.tensor);
  return (place.data * mesh.pipeline + place.pipeline) * mesh.tensor + place.tensor;
}

bool hosts_hold_all(const Mesh& mesh, std::span<const int> workers_per_host) {
  const int replica = mesh.pipeline * mesh.tensor;
  // So many neighbouring ranks have every place once, wherever they begin.
  return std::ranges::all_of(workers_per_host, [&](int workers) { return workers >= replica; });
}

bool places_lie_alike(const Mesh& mesh, std::span<const int> workers_per_host) {
  const int replica = mesh.pipeline * mesh.tensor;
  std::vector<std::vector<int>> counts(
      static_cast<std::size_t>(replica));  // by place: of each host that has any
  int rank = 0;
  for (const int workers : workers_per_host) {
    std::vector<int> here(static_cast<std::size_t>(replica));
    for (int i = 0; i < workers; ++i) ++here[std::size_t(rank++ % replica)];
    for (std::size_t place = 0; place < here.size(); ++place)
      if (here[place] > 0) counts[place].push_back(here[place]);
  }
  return std::ranges::all_of(counts, [&](const auto& of_place) { return of_place == counts[0]; });
}

Mesh resolve_mesh(const MeshWish& wish, int workers) {
  DISTBELIEF_INVARIANT(workers >= 1);
  require_range("data", wish.data, 0);
  require_range("pipeline", wish.pipeline, 1);
  require_range("tensor", wish.tensor, 1);
  const std::int64_t replica = std::int64_t(wish.pipeline) * wish.tensor;
  if (wish.data == 0 && workers % replica != 0) refuse_automatic_data(wish, workers);
  if (wish.data != 0 && wish.data * replica != workers) refuse_given_data(wish, workers);
  return {.data = int(workers / replica), .pipeline = wish.pipeline, .tensor = wish.tensor};
}

MeshChange replan(const Mesh& wanted, int workers) {
  DISTBELIEF_INVARIANT(workers >= 1 && wanted.pipeline >= 1 && wanted.tensor >= 1);
  const auto with = [&](int pipeline, int tensor) {
    return Mesh{.data = workers / (pipeline * tensor), .pipeline = pipeline, .tensor = tensor};
  };
  if (workers % (std::int64_t(wanted.pipeline) * wanted.tensor) == 0) {
    const Mesh kept = with(wanted.pipeline, wanted.tensor);
    return {kept, fmt::format("pipeline {} x tensor {} stays; {} workers make data {}", kept.pipeline,
                              kept.tensor, workers, kept.data)};
  }
  int tensor = wanted.tensor;
  while (wanted.tensor % tensor != 0 || workers % tensor != 0) --tensor;
  const Mesh mesh = with(largest_divisor(workers / tensor, wanted.pipeline), tensor);
  return {mesh,
          fmt::format("pipeline {} x tensor {} does not divide {} workers: now pipeline {} x tensor {}, "
                      "data {}",
                      wanted.pipeline, wanted.tensor, workers, mesh.pipeline, mesh.tensor, mesh.data)};
}

}  // namespace distbelief::mesh
