#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace distbelief::comm {

// Unnamed memory that two processes of one user share: a sealed memfd of one, opened by the other through
// /proc. It cannot shrink while mapped, and goes when both have ended, in whatever way. Not copyable; not
// thread safe.
class SharedMemory {
 public:
  // How the other process finds it.
  struct Place {
    std::int64_t pid = 0;
    int descriptor = -1;
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::size_t bytes = 0;
    bool operator==(const Place&) const = default;
  };

  // Throws Error(kUnavailable) when the system has none.
  explicit SharedMemory(std::size_t bytes);
  // Opens another process's memory. Throws Error(kUnavailable), with the reason, when it cannot be opened
  // (another host, another user, another PID namespace) or differs from `place`.
  explicit SharedMemory(const Place& place);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  Place place() const;
  std::span<std::byte> bytes() const { return {data_, size_}; }
  // The offset of a part from the beginning; nothing for memory that is not wholly inside.
  std::optional<std::uint64_t> offset(std::span<const std::byte> part) const;

 private:
  void map();

  int file_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace distbelief::comm
