#include "distbelief/comm/host/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/comm/link_communicator.h"
#include "distbelief/testing/thread_link.h"

namespace distbelief::comm {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;  // less than a huge page: the segment is in /dev/shm
constexpr int kCannot = 77;

// The segments of two ranks, or their errors.
struct Pair {
  std::optional<SharedSegment> segments[2];
  std::string failures[2];
};

Pair map_in_two_ranks(std::size_t bytes, const std::vector<ByteRange>& used = {}) {
  testing::ThreadHub hub;
  Pair pair;
  const auto map = [&](int rank) {
    LinkCommunicator host(std::make_unique<testing::ThreadLink>(hub, rank, 2, std::chrono::seconds(20)),
                          Algorithm::kDirect);
    try {
      pair.segments[rank] = SharedSegment::map_together(host, bytes, used);
    } catch (const Error& error) {
      pair.failures[rank] = error.what();
    }
  };
  std::jthread other([&] { map(1); });
  map(0);
  other.join();
  return pair;
}

// Writes into /dev/shm until it is full.
void fill_shared_memory() {
  const int file = open("/dev/shm/filling", O_WRONLY | O_CREAT, 0600);
  static const char kBytes[4096] = {};
  while (write(file, kBytes, sizeof(kBytes)) > 0) {
  }
  close(file);
}

// Returns the exit code of `action` in a process whose /dev/shm has the given size; a signal counts from 128.
int with_shared_memory(const char* size, const std::function<int()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    const bool ready = unshare(CLONE_NEWNS) == 0 &&
                       mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       mount("none", "/dev/shm", "tmpfs", 0, (std::string("size=") + size).c_str()) == 0;
    _exit(ready ? action() : kCannot);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(SharedSegment, KeepsItsMemoryWhenAnotherProcessFillsWhatIsLeft) {
  const int code = with_shared_memory("1536k", [] {
    Pair first = map_in_two_ranks(kMiB);
    if (!first.segments[0] || !first.segments[1]) return 1;
    const pid_t filling = fork();
    if (filling == 0) {
      fill_shared_memory();
      _exit(0);
    }
    waitpid(filling, nullptr, 0);
    std::memset(first.segments[0]->data(), 7, kMiB);
    return first.segments[1]->data()[kMiB - 1] == std::byte{7} ? 0 : 2;
  });
  if (code == kCannot) GTEST_SKIP() << "this machine cannot: mount a small /dev/shm without root";
  EXPECT_EQ(code, 0);
}

TEST(SharedSegment, TheSecondOfTwoJobsIsToldThatThereIsNoRoom) {
  const int code = with_shared_memory("1536k", [] {
    const Pair first = map_in_two_ranks(kMiB);  // not touched yet
    const Pair second = map_in_two_ranks(kMiB);
    for (const std::string& failure : second.failures)
      if (failure.find("/dev/shm has 0.5 MB free, this job needs 1.0 MB") == std::string::npos) return 1;
    return 0;
  });
  if (code == kCannot) GTEST_SKIP() << "this machine cannot: mount a small /dev/shm without root";
  EXPECT_EQ(code, 0);
}

TEST(SharedSegment, TakesMemoryForWhatIsUsedOnly) {
  const int code = with_shared_memory("1536k", [] {
    const std::size_t before = shared_memory_free();
    const Pair sparse = map_in_two_ranks(kMiB, {{0, 4096}, {8192, 8192}, {kMiB / 2, kMiB / 2 + 100}});
    return sparse.segments[1] && before - shared_memory_free() == 2 * 4096 ? 0 : 1;
  });
  if (code == kCannot) GTEST_SKIP() << "this machine cannot: mount a small /dev/shm without root";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace distbelief::comm
