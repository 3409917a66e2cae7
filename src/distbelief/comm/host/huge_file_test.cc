#include "distbelief/comm/host/huge_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

namespace distbelief::comm {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Bytes in huge pages of the mapping that begins at `place`.
std::size_t in_huge_pages(const void* place) {
  std::ifstream maps("/proc/self/smaps");
  char begin[32];
  std::snprintf(begin, sizeof(begin), "%lx-",
                static_cast<unsigned long>(reinterpret_cast<std::size_t>(place)));
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    found = found || line.starts_with(begin);
    if (found && line.starts_with("ShmemPmdMapped:")) return std::stoul(line.substr(15)) << 10;
  }
  return 0;
}

TEST(HugeFile, IsMemoryInHugePagesThatAnotherDescriptorSees) {
  constexpr std::size_t kBytes = 3 * kHugePage + 5000;
  const std::string mounts = text_of("/proc/self/mountinfo");
  const int file = open_huge_file(kBytes);
  if (file < 0) GTEST_SKIP() << "this machine cannot: make a mount namespace, or a user namespace";
  EXPECT_EQ(text_of("/proc/self/mountinfo"), mounts) << "nothing is mounted where others see it";
  struct stat status {};
  ASSERT_EQ(fstat(file, &status), 0);
  EXPECT_EQ(status.st_size, off_t(kBytes));
  void* place = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ASSERT_NE(place, MAP_FAILED);
  std::memset(place, 7, kBytes);
  const bool denied =
      text_of("/sys/kernel/mm/transparent_hugepage/shmem_enabled").find("[deny]") != std::string::npos;
  EXPECT_GE(in_huge_pages(place), denied ? 0 : kHugePage);
  const int other = open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(other, 0);
  char last = 0;
  EXPECT_EQ(pread(other, &last, 1, off_t(kBytes) - 1), 1);
  EXPECT_EQ(last, 7);
  munmap(place, kBytes);
  close(file);
  close(other);
}

}  // namespace
}  // namespace distbelief::comm
