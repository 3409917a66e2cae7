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

// A shared-memory mapping, in huge pages where there are any to be had (huge_file.h). Its name, if it needs
// one, exists only while the processes of a host find each other: once all have mapped it the name is
// removed, so nothing is left behind whatever happens to them.
class SharedSegment {
 public:
  SharedSegment() = default;
  ~SharedSegment();
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;

  // Collective over the processes of one host: every one of them maps the same zeroed `bytes`.
  // Memory is taken at once for what will be `used`, or if that is empty for all: nobody who starts later can
  // take it away. Throws Error(kUnavailable), to all of them, when the host's shared memory has no room,
  // saying how much is needed.
  static SharedSegment map_together(Communicator& host, std::size_t bytes,
                                    const std::vector<ByteRange>& used = {});
  // The same in a file of `folder` that has no name once all have mapped it: the kernel can write it back
  // when memory is short. Throws Error(kUnavailable) when the folder is missing or has no room.
  static SharedSegment map_file_together(Communicator& host, std::size_t bytes, const std::string& folder);
  // For one process alone.
  static SharedSegment map_private(std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Copies bytes out without mapping them: they do not become this process's resident memory, as they would
  // by looking at data().
  void read(std::size_t at, std::byte* into, std::size_t bytes) const;

 private:
  SharedSegment(int file, std::size_t bytes);  // takes the file; -1: memory of this process alone

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int file_ = -1;  // none: one process alone
};

// Takes memory of a segment that others keep out of this process's resident memory, until it looks again.
// Whole pages only; what the process keeps itself may go as well, and costs a page fault to come back.
void unmap_pages(const void* begin, std::size_t bytes);

std::size_t shared_memory_free();  // bytes in /dev/shm
// Throws Error(kUnavailable) unless `folder`, which parallel.state_dir names, is there and has `bytes` free.
void require_state_room(const std::string& folder, std::size_t bytes);
// Bytes of /dev/shm, what they are for, and how it would be less ("use fewer workers"), if somebody knows.
struct SharedMemoryNeed {
  std::size_t bytes = 0;
  std::string purpose{};
  std::string less{};
};
// Throws Error(kUnavailable) unless /dev/shm has as much free.
void require_shared_memory(const SharedMemoryNeed& need);
// The same for a host that has said what is free there.
void require_shared_memory_of(const std::string& host, std::size_t free_bytes, const SharedMemoryNeed& need);

}  // namespace distbelief::comm
