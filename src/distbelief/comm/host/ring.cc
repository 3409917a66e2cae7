#include "distbelief/comm/host/ring.h"

#include <fmt/format.h>

#include <cstring>

#include "distbelief/base/error.h"

namespace distbelief::comm {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t value) { return (value + kPage - 1) / kPage * kPage; }

}  // namespace

struct HostRing::Head {
  Signal filled;  // arrays sent
  Signal taken;   // arrays received
};

struct HostRing::Slot {
  std::int64_t tag;
  std::int64_t type;
  std::int64_t dimensions;
  std::int64_t sizes[kMostDimensions];

  std::byte* data() { return reinterpret_cast<std::byte*>(this) + kPage; }
};

std::size_t HostRing::slot_stride(const Shape& shape) {
  static_assert(sizeof(Slot) <= kPage);
  return kPage + round_up(shape.slot_bytes);
}

std::size_t HostRing::bytes_needed(const Shape& shape) {
  static_assert(sizeof(Head) <= kPage);
  return kPage + std::size_t(shape.slots) * slot_stride(shape);
}

HostRing::Head& HostRing::head() const { return *reinterpret_cast<Head*>(memory_); }

HostRing::Slot& HostRing::slot(std::uint32_t number) const {
  const std::size_t index = number % std::uint32_t(shape_.slots);
  return *reinterpret_cast<Slot*>(memory_ + kPage + index * slot_stride(shape_));
}

void HostRingSender::send(const ArrayHead& array, const void* data) {
  if (array.bytes() > shape_.slot_bytes || array.shape.size() > kMostDimensions)
    throw Error(ErrorCode::kInternal,
                fmt::format("an array {} of {} bytes does not fit a ring with room for {} bytes",
                            distbelief::to_string(array.shape), array.bytes(), shape_.slot_bytes));
  const std::uint32_t oldest = sent_ + 1 - std::uint32_t(shape_.slots);
  waiter_.wait(head().taken, oldest, {.rank = receiver_, .operation = "take activations"});
  Slot& place = slot(sent_);
  place.tag = array.tag;
  place.type = std::int64_t(array.type);
  place.dimensions = std::int64_t(array.shape.size());
  std::copy(array.shape.begin(), array.shape.end(), place.sizes);
  std::memcpy(place.data(), data, array.bytes());
  head().filled.raise(++sent_);
}

ArrayHead HostRingReceiver::next() {
  waiter_.wait(head().filled, received_ + 1, {.rank = sender_, .operation = "give activations"});
  const Slot& place = slot(received_);
  return {.tag = place.tag,
          .type = ElementType(place.type),
          .shape = {place.sizes, place.sizes + place.dimensions}};
}

void HostRingReceiver::receive(void* data) {
  Slot& place = slot(received_);
  std::size_t bytes = element_size(ElementType(place.type));
  for (std::int64_t i = 0; i < place.dimensions; ++i) bytes *= std::size_t(place.sizes[i]);
  std::memcpy(data, place.data(), bytes);
  head().taken.raise(++received_);
}

}  // namespace distbelief::comm
