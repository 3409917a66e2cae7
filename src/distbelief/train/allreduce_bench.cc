#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

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

struct Contestant {
  float* buffer;
  std::function<void()> run;
  std::vector<double> seconds{};
};

// They take turns, each a few times in a row, as a program that has only one of them: alternating run by run
// each would find the caches full of the others' memory, of which three share a buffer.
constexpr int kInARow = 3, kWarmUps = 2;

void run_in_a_row(World& world, Contestant& one, std::size_t count, int runs) {
  for (int i = -kWarmUps; i < runs; ++i) {
    std::fill(one.buffer, one.buffer + count, 1.0F);  // as whoever computes a gradient leaves it
    const double seconds = timed(world, one.run);
    if (i >= 0) one.seconds.push_back(seconds);
  }
}

}  // namespace

nlohmann::json bench_allreduce(World& world, const std::vector<std::size_t>& sizes, int repeats) {
  nlohmann::json rows = nlohmann::json::array();
  for (const std::size_t bytes : sizes) {
    // Each size in memory of its own, as a job's arena is: the first part of a far larger buffer is slower to
    // reach, by five times on one machine.
    const std::size_t count = bytes / sizeof(float);
    const comm::HostWindow& window = world.host_group().allocate(bytes);
    auto* values = reinterpret_cast<float*>(window.own());
    std::vector<float> plain(count, 1.0F), copy(count, 0.0F);
    Contestant ours{values,
                    [&] { world.communicator().allreduce(comm::view(values, count), comm::ReduceOp::kSum); }};
    Contestant mpi{plain.data(), [&] { comm::native_allreduce(plain.data(), count); }};
    Contestant memory{plain.data(), [&] { std::memcpy(copy.data(), plain.data(), bytes); }};
    // Reads and writes as many bytes as a sum of two does, with nothing to exchange: what the memory allows.
    Contestant in_place{plain.data(), [&] { scale(plain.data(), 1.0F, count); }};
    for (int done = 0; done < repeats; done += kInARow)
      for (Contestant* one : {&ours, &mpi, &memory, &in_place})
        run_in_a_row(world, *one, count, std::min(kInARow, repeats - done));
    world.host_group().free(window);
    rows.push_back({{"bytes", bytes},
                    {"seconds_median", median(ours.seconds)},
                    {"mpi_seconds_median", median(mpi.seconds)},
                    {"memcpy_seconds_median", median(memory.seconds)},
                    {"in_place_seconds_median", median(in_place.seconds)}});
  }
  return rows;
}

}  // namespace distbelief::train
