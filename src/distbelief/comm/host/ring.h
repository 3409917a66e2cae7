#pragma once

#include <cstddef>
#include <cstdint>

#include "distbelief/comm/host/signal.h"
#include "distbelief/comm/stream.h"

namespace distbelief::comm {

// A stream between two workers of a host: a ring of slots in shared memory. The sender copies an array in and
// the receiver copies it out; neither waits for the other while a slot is free.
class HostRing {
 public:
  static constexpr std::size_t kMostDimensions = 8;

  struct Shape {
    std::size_t slot_bytes = 0;  // of the largest array
    int slots = 1;
  };
  // Bytes at `memory`, which is page-aligned and zeroed before the first end is made. Slots that are never
  // used are never touched.
  static std::size_t bytes_needed(const Shape& shape);

  HostRing(std::byte* memory, const Shape& shape) : memory_(memory), shape_(shape) {}

 protected:
  struct Head;
  struct Slot;
  Head& head() const;
  Slot& slot(std::uint32_t number) const;
  static std::size_t slot_stride(const Shape& shape);

  std::byte* memory_;
  Shape shape_;
};

class HostRingSender final : public StreamSender, HostRing {
 public:
  // `waiter` is borrowed; `receiver` is the rank of the other end, for messages only.
  HostRingSender(std::byte* memory, const Shape& shape, const Waiter& waiter, int receiver)
      : HostRing(memory, shape),
        waiter_(waiter),
        receiver_(receiver) {}
  void send(const ArrayHead& head, const void* data) override;

 private:
  const Waiter& waiter_;
  int receiver_;
  std::uint32_t sent_ = 0;
};

class HostRingReceiver final : public StreamReceiver, HostRing {
 public:
  HostRingReceiver(std::byte* memory, const Shape& shape, const Waiter& waiter, int sender)
      : HostRing(memory, shape),
        waiter_(waiter),
        sender_(sender) {}
  ArrayHead next() override;
  void receive(void* data) override;

 private:
  const Waiter& waiter_;
  int sender_;
  std::uint32_t received_ = 0;
};

}  // namespace distbelief::comm
