#include "distbelief/server/shard/row_store.h"

#include <gtest/gtest.h>

#include <map>

#include "distbelief/compute/row_values.h"

namespace distbelief::server {
namespace {

// A store must behave like a map under any sequence of additions and removals.
TEST(RowStore, HasWhatAMapWouldHave) {
  RowStore store(3, 17);
  std::map<std::uint64_t, float> wanted;
  std::uint64_t random = 1;
  for (int i = 0; i < 200'000; ++i) {
    random = compute::mix(random);
    const std::uint64_t id = (random >> 8) % 5000 * 0x10001;
    if (random % 3 == 0) {
      store.erase(id);
      wanted.erase(id);
    } else {
      RowStore::Head& head = store.find_or_add(id);
      EXPECT_EQ(head.version == 0, !wanted.contains(id));
      head.version = 1;
      RowStore::values(head)[2] = float(i);
      wanted[id] = float(i);
    }
    ASSERT_EQ(store.rows(), wanted.size());
  }
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const auto found = wanted.find(i * 0x10001);
    const RowStore::Head* const head = store.find(i * 0x10001);
    ASSERT_EQ(head != nullptr, found != wanted.end()) << i;
    if (head != nullptr) {
      EXPECT_EQ(RowStore::values(*head)[2], found->second);
    }
  }
  std::size_t listed = 0;
  for (std::size_t place = 0; place < store.places(); ++place) listed += store.at(place).version != 0 ? 1 : 0;
  EXPECT_EQ(listed, wanted.size());
  EXPECT_LE(store.places(), 5000U) << "places are used again";
}

TEST(RowStore, RecordsStayWhereTheyAre) {
  RowStore store(1, 5);
  RowStore::Head* const first = &store.find_or_add(42);
  first->version = 1;
  for (std::uint64_t id = 100; id < 100'000; ++id) store.find_or_add(id).version = 1;
  EXPECT_EQ(store.find(42), first);
  EXPECT_EQ(store.find(7), nullptr);
  EXPECT_EQ(store.rows(), 99'901U);
}

TEST(RowStore, TheOldestOfManyDrawnIsAmongTheOldest) {
  RowStore store(1, 5);
  for (std::uint64_t id = 0; id < 1000; ++id) store.find_or_add(id).version = std::uint32_t(id + 1);
  std::uint64_t random = 3;
  double sum = 0;
  for (int i = 0; i < 200; ++i) sum += double(store.oldest_of(16, random));
  EXPECT_LT(sum / 200, 150);  // 1000 / 17 when all draws are even
}

}  // namespace
}  // namespace distbelief::server
