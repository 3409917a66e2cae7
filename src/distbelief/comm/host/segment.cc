#include "distbelief/comm/host/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/comm/host/huge_file.h"

namespace distbelief::comm {
namespace {

constexpr std::size_t kNameBytes = 64;
constexpr const char* kSharedMemoryFolder = "/dev/shm";
using Name = std::array<char, kNameBytes>;

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error(ErrorCode::kUnavailable, fmt::format("{}: {}", what, std::strerror(error)));
}

std::byte* map(int file, std::size_t bytes) {
  const int flags = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  const int error = errno;
  if (place == MAP_FAILED && file >= 0) close(file);
  if (place == MAP_FAILED) fail(fmt::format("cannot map {} bytes of shared memory", bytes), error);
  return static_cast<std::byte*>(place);
}

// A hint; it fails where the system has no huge pages for this memory.
void want_huge_pages(const SharedSegment& segment) { madvise(segment.data(), segment.size(), MADV_HUGEPAGE); }

[[noreturn]] void refuse_for_room(const std::string& host, std::size_t free_bytes,
                                  const SharedMemoryNeed& need) {
  throw Error(ErrorCode::kUnavailable,
              fmt::format("/dev/shm{} has {:.1f} MB free, {} needs {:.1f} MB; give it more room "
                          "(mount -o remount,size=...; containers: --shm-size={}m){}{}",
                          host.empty() ? "" : " of " + host, double(free_bytes) / 1e6, need.purpose,
                          double(need.bytes) / 1e6, need.bytes / 1'000'000 + 1,
                          need.less.empty() ? "" : " or ", need.less));
}

SharedMemoryNeed need_of_job(std::size_t bytes) {
  return {.bytes = bytes, .purpose = "this job", .less = "use fewer workers"};
}

// Allocates the range: with a sparse file SIGBUS would kill a worker when the memory runs out later. Returns
// the error.
int take_memory(int file, ByteRange range) {
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(file, off_t(range.begin), off_t(range.end - range.begin));
  return error;
}

// Sets the file's size and allocates the ranges to be used. Returns the error.
int make_room(int file, std::size_t bytes, const std::vector<ByteRange>& used) {
  if (ftruncate(file, off_t(bytes)) != 0) return errno;
  if (used.empty()) return take_memory(file, {0, bytes});
  for (const ByteRange& range : used)
    if (const int error = range.begin < range.end ? take_memory(file, range) : 0; error != 0) return error;
  return 0;
}

Name create_named(std::size_t bytes, const std::vector<ByteRange>& used, int& file) {
  std::random_device random;
  for (int attempt = 0; attempt < 16; ++attempt) {
    Name name{};
    fmt::format_to_n(name.data(), kNameBytes - 1, "/distbelief-{}-{:08x}{:08x}", getpid(), random(),
                     random());
    file = shm_open(name.data(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) fail("cannot create shared memory in /dev/shm", errno);
    const int error = make_room(file, bytes, used);
    if (error == 0) return name;
    close(file);
    shm_unlink(name.data());
    if (error == ENOSPC) refuse_for_room("", shared_memory_free(), need_of_job(bytes));
    fail(fmt::format("cannot make a shared-memory segment of {} bytes", bytes), error);
  }
  fail("cannot find a free name in /dev/shm", EEXIST);
}

// A file that never has a name, so nothing stays behind however its process ends.
int create_unnamed(const std::string& folder, std::size_t bytes) {
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0)
    fail(fmt::format("parallel.state_dir {}: cannot make a file without a name there", folder), errno);
  const int error = posix_fallocate(file, 0, off_t(bytes));
  if (error == 0) return file;
  close(file);
  fail(fmt::format("parallel.state_dir {}: no room for {} bytes of optimizer state", folder, bytes), error);
}

// The same in the host's shared memory; -1 when there is no room or the system lacks it.
int create_in_shared_memory(std::size_t bytes, const std::vector<ByteRange>& used) {
  struct statvfs room {};
  const bool fits = statvfs(kSharedMemoryFolder, &room) == 0 && room.f_bavail * room.f_frsize >= bytes;
  const int file = fits ? open(kSharedMemoryFolder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;
  if (file < 0 || make_room(file, bytes, used) == 0) return file;
  close(file);
  return -1;
}

// The kernel gives huge pages only whole; nothing is rounded up.
bool wants_huge_pages(std::size_t bytes) { return bytes >= kHugePage; }

Name name_of(int file) {
  Name name{};
  fmt::format_to_n(name.data(), kNameBytes - 1, "/proc/{}/fd/{}", getpid(), file);
  return name;
}

// A file that another process has open, and its identity: in another PID namespace the path may lead to any
// file.
struct OpenFile {
  Name name{};
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

OpenFile describe(int file) {
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0) return {};
  return {.name = name_of(file), .device = status.st_dev, .inode = status.st_ino};
}

int open_same(const OpenFile& wanted) {
  const int file = open(wanted.name.data(), O_RDWR | O_CLOEXEC);
  const OpenFile found = describe(file);
  if (file >= 0 && found.device == wanted.device && found.inode == wanted.inode) return file;
  const int error = file < 0 ? errno : ESTALE;
  if (file >= 0) close(file);
  errno = error;
  return -1;
}

// Every process's descriptor of an unnamed file that the first one makes with `make`; -1 for all when one of
// them cannot open it.
int open_nameless_together(Communicator& host, const std::function<int()>& make) {
  const int first = host.rank() == 0 ? make() : -1;
  OpenFile shared = describe(first);
  host.broadcast(view(reinterpret_cast<std::byte*>(&shared), sizeof(shared)), 0);
  if (shared.name[0] == '\0') return -1;
  const int file = host.rank() == 0 ? first : open_same(shared);
  std::int64_t having = file >= 0 ? 1 : 0;
  host.allreduce(view(&having, 1), ReduceOp::kSum);
  if (having == host.size()) return file;
  if (file >= 0) close(file);
  return -1;
}

// Tells all processes whether the first one succeeded before any goes on, so that none waits for a name that
// never comes.
struct Invitation {
  OpenFile file{};
  char failure[256] = {};
};

// For processes that do not see each other's files in /proc, as in separate containers: the others open the
// first one's file by its name in /dev/shm, which is then removed. A process killed at that moment leaves the
// name behind.
int open_named_together(Communicator& host, std::size_t bytes, const std::vector<ByteRange>& used) {
  Invitation invitation;
  int file = -1;
  if (host.rank() == 0) {
    try {
      require_shared_memory(need_of_job(bytes));
      invitation.file.name = create_named(bytes, used, file);
    } catch (const Error& error) {
      std::strncpy(invitation.failure, error.what(), sizeof(invitation.failure) - 1);
    }
  }
  host.broadcast(view(reinterpret_cast<std::byte*>(&invitation), sizeof(invitation)), 0);
  if (invitation.failure[0] != '\0') throw Error(ErrorCode::kUnavailable, invitation.failure);
  if (host.rank() != 0) file = shm_open(invitation.file.name.data(), O_RDWR | O_CLOEXEC, 0);
  const int open_error = errno;
  host.barrier();
  if (host.rank() == 0) shm_unlink(invitation.file.name.data());
  if (file < 0)
    fail(fmt::format(
             "cannot open the host's shared memory {}; do all workers of this host see the same /dev/shm?",
             invitation.file.name.data()),
         open_error);
  return file;
}

}  // namespace

void unmap_pages(const void* begin, std::size_t bytes) {
  const auto page = std::uintptr_t(sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(begin) + page - 1) / page * page;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(begin) + bytes) / page * page;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

std::size_t shared_memory_free() {
  struct statvfs room {};
  if (statvfs(kSharedMemoryFolder, &room) != 0) fail("cannot look at /dev/shm", errno);
  return room.f_bavail * room.f_frsize;
}

void require_shared_memory(const SharedMemoryNeed& need) {
  require_shared_memory_of("", shared_memory_free(), need);
}

void require_shared_memory_of(const std::string& host, std::size_t free_bytes, const SharedMemoryNeed& need) {
  if (free_bytes < need.bytes) refuse_for_room(host, free_bytes, need);
}

// A huge file's memory belongs to a private file system of the same size, so no other process can fill it.
SharedSegment SharedSegment::map_together(Communicator& host, std::size_t bytes,
                                          const std::vector<ByteRange>& used) {
  if (host.size() == 1) return map_private(bytes);
  int file = -1;
  if (wants_huge_pages(bytes)) file = open_nameless_together(host, [&] { return open_huge_file(bytes); });
  if (file < 0) file = open_nameless_together(host, [&] { return create_in_shared_memory(bytes, used); });
  if (file < 0) file = open_named_together(host, bytes, used);
  SharedSegment segment(file, bytes);
  want_huge_pages(segment);
  return segment;
}

void require_state_room(const std::string& folder, std::size_t bytes) {
  struct statvfs room {};
  if (statvfs(folder.c_str(), &room) != 0)
    fail(fmt::format("parallel.state_dir {}: cannot use this folder, make it or name another", folder),
         errno);
  if (room.f_bavail * room.f_frsize >= bytes) return;
  throw Error(
      ErrorCode::kUnavailable,
      fmt::format("parallel.state_dir {} has {:.1f} MB free, the optimizer's state needs {:.1f} MB; name a "
                  "folder with more room",
                  folder, double(room.f_bavail * room.f_frsize) / 1e6, double(bytes) / 1e6));
}

// The others open the first one's file by its descriptor number there.
SharedSegment SharedSegment::map_file_together(Communicator& host, std::size_t bytes,
                                               const std::string& folder) {
  Invitation invitation;
  int file = -1;
  if (host.rank() == 0) {
    try {
      require_state_room(folder, bytes);
      file = create_unnamed(folder, bytes);
      invitation.file = describe(file);
    } catch (const Error& error) {
      std::strncpy(invitation.failure, error.what(), sizeof(invitation.failure) - 1);
    }
  }
  host.broadcast(view(reinterpret_cast<std::byte*>(&invitation), sizeof(invitation)), 0);
  if (invitation.failure[0] != '\0') throw Error(ErrorCode::kUnavailable, invitation.failure);
  if (host.rank() != 0) file = open_same(invitation.file);
  const int open_error = errno;
  host.barrier();
  if (file < 0)
    fail(fmt::format("cannot open the optimizer's state at {}", invitation.file.name.data()), open_error);
  return SharedSegment(file, bytes);
}

SharedSegment SharedSegment::map_private(std::size_t bytes) {
  SharedSegment segment(wants_huge_pages(bytes) ? open_huge_file(bytes) : -1, bytes);
  want_huge_pages(segment);
  return segment;
}

SharedSegment::SharedSegment(int file, std::size_t bytes)
    : data_(map(file, bytes)),
      size_(bytes),
      file_(file) {}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) munmap(data_, size_);
  if (file_ >= 0) close(file_);
}

void SharedSegment::read(std::size_t at, std::byte* into, std::size_t bytes) const {
  if (file_ < 0) {
    std::memcpy(into, data_ + at, bytes);
    return;
  }
  while (bytes > 0) {
    const ssize_t done = pread(file_, into, bytes, off_t(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("cannot read the host's shared memory", errno);
    at += std::size_t(done);
    into += done;
    bytes -= std::size_t(done);
  }
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      file_(std::exchange(other.file_, -1)) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(file_, other.file_);
  return *this;
}

}  // namespace distbelief::comm
