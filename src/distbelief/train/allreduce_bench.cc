#include <algorithm>
#include <chrono>
#include <cstring>

#include "distbelief/base/median.h"
#include "distbelief/base/vector.h"
#include "distbelief/comm/mpi/native_allreduce.h"
#include "distbelief/train/step_bench.h"

namespace distbelief::train {
namespace {

using Clock = std::chrono::steady_clock;

// The slowest rank's time of one run of `body`.
template <typename Body>
double timed(World& world, const Body& body) {
  world.communicator().barrier();
  const auto begin = Clock::now();
  body();
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::vector<double> all(std::size_t(world.size()));
  all[std::size_t(world.rank())] = seconds;
  world.communicator().allreduce(comm::view(all.data(), all.size()), comm::ReduceOp::kSum);
  return *std::max_element(all.begin(), all.end());
}

}  // namespace

nlohmann::json bench_allreduce(World& world, const std::vector<std::size_t>& sizes, int repeats) {
  nlohmann::json rows = nlohmann::json::array();
  for (const std::size_t bytes : sizes) {
    // Each size in memory of its own, as a job's arena is: the first part of a far larger buffer is slower to
    // reach, by five times on one machine.
    const std::size_t count = bytes / sizeof(float);
    auto* values = reinterpret_cast<float*>(world.host_group().allocate(bytes).own());
    std::vector<float> plain(count, 1.0F), copy(count, 0.0F);
    std::fill(values, values + count, 1.0F);
    std::vector<double> ours, mpi, memory, in_place;
    for (int i = 0; i < repeats + 2; ++i) {  // interleaved; the first two warm up
      const double a = timed(
          world, [&] { world.communicator().allreduce(comm::view(values, count), comm::ReduceOp::kSum); });
      const double b = timed(world, [&] { comm::native_allreduce(plain.data(), count); });
      const double c = timed(world, [&] { std::memcpy(copy.data(), plain.data(), bytes); });
      // Reads and writes as many bytes as a sum of two does, with nothing to exchange: what the memory
      // allows.
      const double d = timed(world, [&] { scale(plain.data(), 1.0F, count); });
      std::fill(plain.begin(), plain.end(), 1.0F);
      std::fill(values, values + count, 1.0F);
      if (i < 2) continue;
      ours.push_back(a);
      mpi.push_back(b);
      memory.push_back(c);
      in_place.push_back(d);
    }
    rows.push_back({{"bytes", bytes},
                    {"seconds_median", median(ours)},
                    {"mpi_seconds_median", median(mpi)},
                    {"memcpy_seconds_median", median(memory)},
                    {"in_place_seconds_median", median(in_place)}});
  }
  return rows;
}

}  // namespace distbelief::train
