#pragma once

#include <cstdint>

#include "distbelief/base/array.h"

namespace distbelief::comm {

// What an array that travels is.
struct ArrayHead {
  std::int64_t tag = 0;  // the sender's word for it
  ElementType type = ElementType::kFloat32;
  Shape shape{};

  std::size_t bytes() const { return std::size_t(element_count(shape)) * element_size(type); }
};

// The two ends of a one-way stream of arrays between two workers. Arrays arrive in the order sent, and a few
// may be under way. Each end is used by one thread. Waits have the world's deadline and throw Error(kTimeout)
// naming the other end, Error(kAborted) when another worker failed.
class StreamSender {
 public:
  virtual ~StreamSender() = default;
  // Returns when the array was copied away; waits only while too many are not yet received.
  virtual void send(const ArrayHead& head, const void* data) = 0;
};

class StreamReceiver {
 public:
  virtual ~StreamReceiver() = default;
  // Waits for the next array and says what it is.
  virtual ArrayHead next() = 0;
  // Copies the array that next() told of.
  virtual void receive(void* data) = 0;
};

}  // namespace distbelief::comm
