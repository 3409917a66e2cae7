#include "distbelief/comm/rpc/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "distbelief/base/error.h"

namespace distbelief::comm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void no_shared_memory(int file, const std::string& what, int error) {
  if (file >= 0) close(file);
  throw Error(ErrorCode::kUnavailable, fmt::format("shared memory: {}: {}", what, std::strerror(error)));
}

// A file that may shrink would kill its reader with SIGBUS. A file with another identity, as after a reuse of
// the PID, is not ours.
void check_file(int file, const SharedMemory::Place& place) {
  struct stat found {};
  if (fstat(file, &found) != 0) no_shared_memory(file, "cannot look at it", errno);
  const bool same = found.st_dev == place.device && found.st_ino == place.inode &&
                    std::size_t(found.st_size) == place.bytes;
  if (same && fcntl(file, F_GET_SEALS) == kSeals) return;
  no_shared_memory(
      file, fmt::format("descriptor {} of process {} is not what was promised", place.descriptor, place.pid),
      EBADF);
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes) : size_(bytes) {
  file_ = memfd_create("distbelief-exchange", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file_ < 0) no_shared_memory(-1, "cannot make a memfd", errno);
  if (ftruncate(file_, off_t(bytes)) != 0 || fcntl(file_, F_ADD_SEALS, kSeals) != 0)
    no_shared_memory(file_, fmt::format("cannot make {} bytes", bytes), errno);
  map();
}

SharedMemory::SharedMemory(const Place& place) : size_(place.bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", place.pid, place.descriptor);
  file_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file_ < 0) no_shared_memory(-1, fmt::format("cannot open {}", path), errno);
  check_file(file_, place);
  map();
}

void SharedMemory::map() {
  void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) no_shared_memory(file_, fmt::format("cannot map {} bytes", size_), errno);
  madvise(mapped, size_, MADV_HUGEPAGE);  // a hint
  data_ = static_cast<std::byte*>(mapped);
}

SharedMemory::~SharedMemory() {
  munmap(data_, size_);
  close(file_);
}

SharedMemory::Place SharedMemory::place() const {
  struct stat found {};
  fstat(file_, &found);
  return {
      .pid = getpid(), .descriptor = file_, .device = found.st_dev, .inode = found.st_ino, .bytes = size_};
}

std::optional<std::uint64_t> SharedMemory::offset(std::span<const std::byte> part) const {
  const std::less_equal<const std::byte*> before;  // defined for unrelated memory too
  if (part.empty() || !before(data_, part.data()) || !before(part.data() + part.size(), data_ + size_))
    return std::nullopt;
  return std::uint64_t(part.data() - data_);
}

}  // namespace distbelief::comm
