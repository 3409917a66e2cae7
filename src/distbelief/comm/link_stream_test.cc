#include "distbelief/comm/link_stream.h"

#include <gtest/gtest.h>

#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/testing/thread_link.h"

namespace distbelief::comm {
namespace {

using namespace std::chrono_literals;

TEST(LinkStream, ArraysArriveInOrderAndStreamsAreKeptApartByTheirTags) {
  testing::ThreadHub hub;
  testing::ThreadLink from(hub, 0, 2, 10s), to(hub, 1, 2, 10s);
  LinkSender first({.link = &from, .receiver = 1, .tag = 5});
  LinkSender second({.link = &from, .receiver = 1, .tag = 6});
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> values(static_cast<std::size_t>(i), static_cast<float>(i));
    first.send({.tag = i, .type = ElementType::kFloat32, .shape = {i}}, values.data());
    const std::int64_t number = 100 + i;
    second.send({.tag = -i, .type = ElementType::kInt64, .shape = {}}, &number);
  }
  LinkReceiver other(to, 0, 6);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(other.next().tag, -i);
    std::int64_t number = 0;
    other.receive(&number);
    EXPECT_EQ(number, 100 + i);
  }
  LinkReceiver receiver(to, 0, 5);
  for (int i = 0; i < 20; ++i) {
    const ArrayHead head = receiver.next();
    EXPECT_EQ(head.tag, i);
    EXPECT_EQ(head.shape, Shape{i});
    std::vector<float> values(static_cast<std::size_t>(i), -1.0F);
    receiver.receive(values.data());
    EXPECT_EQ(values, std::vector<float>(std::size_t(i), float(i)));
  }
}

TEST(LinkStream, SaysWhoDidNotSend) {
  testing::ThreadHub hub;
  testing::ThreadLink to(hub, 1, 2, 20ms);
  LinkReceiver receiver(to, 0, 5);
  try {
    receiver.next();
    FAIL() << "nothing was sent";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_EQ(error.where().rank, 0);
  }
}

}  // namespace
}  // namespace distbelief::comm
