#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "distbelief/comm/communicator.h"

namespace distbelief::comm {

struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// A shared-memory mapping, in huge pages where the system has them (huge_file.h). A name, if it needs one,
// exists only until all processes of the host have mapped it; nothing is left behind however they end.
class SharedSegment {
 public:
  SharedSegment() = default;
  ~SharedSegment();
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;

  // Collective over the processes of one host: each maps the same zeroed `bytes`. Memory for the ranges in
  // `used` (all of it when that is empty) is taken at once, so that a later process cannot take it away. When
  // the host's shared memory has no room, every process gets Error(kUnavailable) with the bytes needed.
  static SharedSegment map_together(Communicator& host, std::size_t bytes,
                                    const std::vector<ByteRange>& used = {});
  // The same with an unnamed file in `folder`: the kernel can write it back when memory is short. Throws
  // Error(kUnavailable) when the folder is missing or has no room.
  static SharedSegment map_file_together(Communicator& host, std::size_t bytes, const std::string& folder);
  // For a single process.
  static SharedSegment map_private(std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Copies bytes out without mapping them, so that they do not count as this process's resident memory as a
  // read through data() would.
  void read(std::size_t at, std::byte* into, std::size_t bytes) const;

 private:
  SharedSegment(int file, std::size_t bytes);  // owns `file`; -1: memory of this process alone

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int file_ = -1;  // -1: memory of this process alone
};

// Drops whole pages of a shared segment from this process's resident memory; the next access brings them
// back. Pages that this process filled may go as well and then cost a page fault.
void unmap_pages(const void* begin, std::size_t bytes);

std::size_t shared_memory_free();  // bytes in /dev/shm
// Throws Error(kUnavailable) unless `folder`, which parallel.state_dir names, exists and has `bytes` free.
void require_state_room(const std::string& folder, std::size_t bytes);
// Bytes of /dev/shm, their purpose, and a way to need fewer ("use fewer workers"), if there is one.
struct SharedMemoryNeed {
  std::size_t bytes = 0;
  std::string purpose{};
  std::string less{};
};
// Throws Error(kUnavailable) unless /dev/shm has that much free.
void require_shared_memory(const SharedMemoryNeed& need);
// The same for another host that reported its free bytes.
void require_shared_memory_of(const std::string& host, std::size_t free_bytes, const SharedMemoryNeed& need);

}  // namespace distbelief::comm
