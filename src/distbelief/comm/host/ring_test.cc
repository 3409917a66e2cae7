#include "distbelief/comm/host/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/comm/host/segment.h"

namespace distbelief::comm {
namespace {

using namespace std::chrono_literals;

struct Ring {
  explicit Ring(HostRing::Shape of, std::chrono::nanoseconds deadline = 10s)
      : shape(of),
        segment(SharedSegment::map_private(HostRing::bytes_needed(of))),
        waiter(abort, deadline, 0ns),
        sender(segment.data(), of, waiter, 4),
        receiver(segment.data(), of, waiter, 3) {}

  HostRing::Shape shape;
  SharedSegment segment;
  AbortRecord abort;
  Waiter waiter;
  HostRingSender sender;
  HostRingReceiver receiver;
};

std::vector<float> numbers(std::size_t count, float first) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + float(i);
  return values;
}

TEST(HostRing, ArraysArriveInOrderWithTheirShapes) {
  Ring ring({.slot_bytes = 4096 * sizeof(float), .slots = 3});
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      const std::vector<float> values = numbers(std::size_t(1 + 40 * i), float(i));
      ring.sender.send({.tag = i, .type = ElementType::kFloat32, .shape = {1 + 40 * i, 1}}, values.data());
    }
  });
  for (int i = 0; i < 100; ++i) {
    const ArrayHead head = ring.receiver.next();
    EXPECT_EQ(head.tag, i);
    EXPECT_EQ(head.shape, (Shape{1 + 40 * i, 1}));
    std::vector<float> values(std::size_t(element_count(head.shape)));
    ring.receiver.receive(values.data());
    EXPECT_EQ(values, numbers(values.size(), float(i)));
  }
  other.join();
}

TEST(HostRing, SendsWithoutAReceiverWhileSlotsAreFree) {
  Ring ring({.slot_bytes = 8, .slots = 2}, 50ms);
  const float value = 1;
  const ArrayHead head{.tag = 0, .type = ElementType::kFloat32, .shape = {1}};
  ring.sender.send(head, &value);
  ring.sender.send(head, &value);
  try {
    ring.sender.send(head, &value);
    FAIL() << "three arrays in two slots";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_EQ(error.where().rank, 4);
  }
}

TEST(HostRing, SaysWhoDidNotSendAndStopsWhenAnotherFailed) {
  Ring ring({.slot_bytes = 8, .slots = 2}, 50ms);
  try {
    ring.receiver.next();
    FAIL() << "nothing was sent";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_EQ(error.where().rank, 3);
  }
  ring.abort.set(7, "out of memory");
  try {
    ring.receiver.next();
    FAIL() << "another worker failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kAborted);
  }
}

TEST(HostRing, RefusesAnArrayThatDoesNotFit) {
  Ring ring({.slot_bytes = 8, .slots = 1});
  const std::vector<float> values(3);
  EXPECT_THROW(ring.sender.send({.tag = 0, .type = ElementType::kFloat32, .shape = {3}}, values.data()),
               Error);
}

}  // namespace
}  // namespace distbelief::comm
