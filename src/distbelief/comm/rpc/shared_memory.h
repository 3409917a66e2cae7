#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace distbelief::comm {

// Memory that two processes of one user share without a name: a sealed memfd of one, opened by the other
// through /proc. It cannot shrink under either of them, and goes with the last of them however they end. Not
// copied, not thread safe in itself.
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

  // Throws Error(kUnavailable) when there is none to be had.
  explicit SharedMemory(std::size_t bytes);
  // Another process's; throws Error(kUnavailable), with the reason, when it cannot be opened (another host,
  // another user, another PID namespace), or is not what was promised.
  explicit SharedMemory(const Place& place);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  Place place() const;
  std::span<std::byte> bytes() const { return {data_, size_}; }
  // Where a part of it begins, counted from its beginning; nothing for memory that is not wholly inside.
  std::optional<std::uint64_t> offset(std::span<const std::byte> part) const;

 private:
  void map();

  int file_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace distbelief::comm
