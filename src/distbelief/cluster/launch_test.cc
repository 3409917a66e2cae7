#include "distbelief/cluster/launch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief::cluster {
namespace {

TEST(LaunchCommand, NamesHostsWorkersAndThePinnedEnvironment) {
  const auto command = launch_command(
      {.workers = 4, .hosts = {{"a", 2}, {"b", 2}}, .isa = Isa::kAvx2, .command = {"program", "worker"}});
  const auto has = [&](const std::string& word) {
    return std::any_of(command.begin(), command.end(),
                       [&](const auto& part) { return part.find(word) != std::string::npos; });
  };
  EXPECT_TRUE(has("a:2,b:2"));
  EXPECT_TRUE(has("OMP_NUM_THREADS"));
  EXPECT_TRUE(has("OPENBLAS_CORETYPE"));
  EXPECT_EQ(command.back(), "worker");
}

TEST(Isa, NamesRoundTripAndOthersAreRefused) {
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
    EXPECT_EQ(parse_isa(std::string(to_string(isa))), isa);
  EXPECT_THROW(parse_isa("avx1024"), Error);
}

TEST(HostAnswer, RoundTripsAndOtherWordsAreRefused) {
  const HostAnswer answer{.isa = Isa::kAvx2, .shared_memory_free = 8'123'456'789};
  EXPECT_EQ(parse_host_answer(to_string(answer)), answer);
  for (const char* line : {"", "avx2", "avx2 ", "avx2 many", "avx2 12 and more", "hello 12"})
    EXPECT_THROW(parse_host_answer(line), Error) << line;
}

TEST(RunWorkers, GivesTheWorkersExitCode) {
  const std::atomic<bool> interrupted{false};
  EXPECT_EQ(run_workers({.workers = 1, .hosts = {}, .isa = detect_isa(), .command = {"true"}}, interrupted),
            0);
  EXPECT_EQ(run_workers({.workers = 1, .hosts = {}, .isa = detect_isa(), .command = {"sh", "-c", "exit 3"}},
                        interrupted),
            3);
}

TEST(LaunchCommand, LeavesMpiItsSharedMemoryOnlyToMeasureIt) {
  const auto has = [](const LaunchOptions& options, const char* word) {
    return std::ranges::count(launch_command(options), word) > 0;
  };
  LaunchOptions options;
  options.command = {"true"};
  options.session_folder = "session";
  EXPECT_EQ(has(options, "self,tcp"), has(options, "--mca"));  // Open MPI only; MPICH has neither
  options.mpi_memory = true;
  EXPECT_FALSE(has(options, "self,tcp"));
}

TEST(RunWorkers, EndsThemWhenInterruptedAndLeavesNoFiles) {
  const ScratchFolder scratch;
  setenv("TMPDIR", scratch.path().c_str(), 1);
  const std::atomic<bool> interrupted{true};
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(
      run_workers({.workers = 2, .hosts = {}, .isa = detect_isa(), .command = {"sleep", "60"}}, interrupted),
      130);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  unsetenv("TMPDIR");
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

}  // namespace
}  // namespace distbelief::cluster
