#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "distbelief/comm/rpc/exchange_frame.h"

// Conversions between gRPC's slices and our own memory, with as few copies as possible. Private to this
// folder.
namespace distbelief::comm {

// Reusable buffers for payloads: fresh memory costs a page fault per 4 KiB. Thread safe; the pool lives as
// long as any of its buffers.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  class Buffer {
   public:
    Buffer() = default;
    Buffer(std::shared_ptr<BufferPool> pool, std::byte* data) : pool_(std::move(pool)), data_(data) {}
    Buffer(Buffer&& other) noexcept
        : pool_(std::move(other.pool_)),
          data_(std::exchange(other.data_, nullptr)) {}
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();
    std::byte* data() const { return data_; }

   private:
    std::shared_ptr<BufferPool> pool_;
    std::byte* data_ = nullptr;
  };

  ~BufferPool();
  Buffer take();  // of kMaxPayloadBytes

 private:
  void give_back(std::byte* data);

  std::mutex mutex_;
  std::vector<std::byte*> free_;
};

// Tracks whether gRPC still holds a piece of borrowed memory.
class Loan {
 public:
  void end();
  // Returns false when the deadline passed.
  bool wait_for_end(std::chrono::milliseconds deadline);
  bool ended();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

// The memory must not change until the loan has ended.
grpc::Slice lend(std::span<const std::byte> memory, std::shared_ptr<Loan> loan);
grpc::Slice hand_over(BufferPool::Buffer buffer, std::size_t bytes);

// A message with a payload that is referenced, or with a small one that is copied.
grpc::ByteBuffer make_message(const Frame& frame, std::string_view header, const grpc::Slice* payload);
grpc::ByteBuffer make_message(const Frame& frame, std::string_view header, std::span<const std::byte> small);

// Reads a message from its beginning to its end, each byte once.
class MessageReader {
 public:
  explicit MessageReader(const grpc::ByteBuffer& message);

  std::size_t size() const { return size_; }  // of the whole message
  // Copies the next bytes; there must be that many left.
  void read(std::span<std::byte> into);

 private:
  std::vector<grpc::Slice> slices_;
  std::size_t size_ = 0;
  std::size_t slice_ = 0, at_ = 0;
};

}  // namespace distbelief::comm
