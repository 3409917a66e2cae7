#include "distbelief/comm/rpc/exchange_bytes.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange.h"

namespace distbelief::comm {
namespace {

constexpr std::align_val_t kBufferAlignment{64};
constexpr std::size_t kMostFreeBuffers = 64;

}  // namespace

BufferPool::Buffer& BufferPool::Buffer::operator=(Buffer&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(data_, other.data_);
  return *this;
}

BufferPool::Buffer::~Buffer() {
  if (data_ != nullptr) pool_->give_back(data_);
}

BufferPool::~BufferPool() {
  for (std::byte* buffer : free_) ::operator delete(buffer, kBufferAlignment);
}

BufferPool::Buffer BufferPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::byte* data = free_.back();  // the last one used: it may still be in a cache
      free_.pop_back();
      return {shared_from_this(), data};
    }
  }
  return {shared_from_this(), static_cast<std::byte*>(::operator new(kMaxPayloadBytes, kBufferAlignment))};
}

void BufferPool::give_back(std::byte* data) {
  {
    const std::lock_guard lock(mutex_);
    if (free_.size() < kMostFreeBuffers) return free_.push_back(data);
  }
  ::operator delete(data, kBufferAlignment);
}

void Loan::end() {
  const std::lock_guard lock(mutex_);  // held while notifying: the waiter may destroy this
  ended_ = true;
  changed_.notify_all();
}

bool Loan::wait_for_end(std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, deadline, [&] { return ended_; });
}

bool Loan::ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

grpc::Slice lend(std::span<const std::byte> memory, std::shared_ptr<Loan> loan) {
  auto* holder = new std::shared_ptr<Loan>(std::move(loan));
  const auto end = [](void* held) {
    const std::unique_ptr<std::shared_ptr<Loan>> ended(static_cast<std::shared_ptr<Loan>*>(held));
    (*ended)->end();
  };
  return {const_cast<std::byte*>(memory.data()), memory.size(), end, holder};  // gRPC only reads it
}

grpc::Slice hand_over(BufferPool::Buffer buffer, std::size_t bytes) {
  std::byte* data = buffer.data();
  auto* holder = new BufferPool::Buffer(std::move(buffer));
  return {data, bytes, [](void* held) { delete static_cast<BufferPool::Buffer*>(held); }, holder};
}

grpc::ByteBuffer make_message(const Frame& frame, std::string_view header, std::span<const std::byte> small) {
  const FrameHead head = encode_frame(frame);
  const grpc::Slice slice(kFrameBytes + header.size() + small.size());
  auto* at = const_cast<std::uint8_t*>(slice.begin());  // ours alone until it is sent
  std::memcpy(at, head.data(), kFrameBytes);
  if (!header.empty()) std::memcpy(at + kFrameBytes, header.data(), header.size());
  if (!small.empty()) std::memcpy(at + kFrameBytes + header.size(), small.data(), small.size());
  return {&slice, 1};
}

grpc::ByteBuffer make_message(const Frame& frame, std::string_view header, const grpc::Slice* payload) {
  const FrameHead head = encode_frame(frame);
  const grpc::Slice first(kFrameBytes + header.size());
  auto* at = const_cast<std::uint8_t*>(first.begin());
  std::memcpy(at, head.data(), kFrameBytes);
  if (!header.empty()) std::memcpy(at + kFrameBytes, header.data(), header.size());
  const std::array<grpc::Slice, 2> slices{first, *payload};
  return {slices.data(), slices.size()};
}

MessageReader::MessageReader(const grpc::ByteBuffer& message) : size_(message.Length()) {
  if (!message.Dump(&slices_).ok()) size_ = 0;
}

void MessageReader::read(std::span<std::byte> into) {
  while (!into.empty()) {
    DISTBELIEF_INVARIANT(slice_ < slices_.size());
    const grpc::Slice& from = slices_[slice_];
    const std::size_t count = std::min(into.size(), from.size() - at_);
    std::memcpy(into.data(), from.begin() + at_, count);
    into = into.subspan(count);
    at_ += count;
    if (at_ == from.size()) ++slice_, at_ = 0;
  }
}

}  // namespace distbelief::comm
