#pragma once

#include <cstdint>

#include "distbelief/base/array.h"

namespace distbelief::comm {

// Describes an array on a stream.
struct ArrayHead {
  std::int64_t tag = 0;  // the sender's label for it
  ElementType type = ElementType::kFloat32;
  Shape shape{};

  std::size_t bytes() const { return std::size_t(element_count(shape)) * element_size(type); }
};

// The two ends of a one-way stream of arrays between two workers. Arrays arrive in the order sent, and a few
// may be in flight. One thread uses each end. Waits have the world's deadline; they throw Error(kTimeout)
// naming the other end, and Error(kAborted) when another worker failed.
class StreamSender {
 public:
  virtual ~StreamSender() = default;
  // Returns when the array has been copied away; blocks only while too many arrays are in flight.
  virtual void send(const ArrayHead& head, const void* data) = 0;
};

class StreamReceiver {
 public:
  virtual ~StreamReceiver() = default;
  // Waits for the next array and describes it.
  virtual ArrayHead next() = 0;
  // Copies the array that next() described.
  virtual void receive(void* data) = 0;
};

}  // namespace distbelief::comm
