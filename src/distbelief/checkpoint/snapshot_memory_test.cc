#include "distbelief/checkpoint/snapshot_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "distbelief/base/error.h"

namespace distbelief::checkpoint {
namespace {

constexpr std::size_t kBytes = 10'000;

class SnapshotMemoryTest : public ::testing::Test {
 protected:
  ~SnapshotMemoryTest() override { SnapshotMemory::remove(name_); }

  SnapshotMemory open() const { return SnapshotMemory::open(name_, shape_); }

  // All parts of one snapshot, filled with `value`.
  static void write(SnapshotMemory& memory, int slot, std::int64_t step, int parts, char value) {
    for (int part = 0; part < parts; ++part) write_part(memory, slot, step, parts, part, value);
  }
  static void write_part(SnapshotMemory& memory, int slot, std::int64_t step, int parts, int part,
                         char value) {
    const std::vector<std::byte> bytes(kBytes, std::byte(value));
    const std::size_t begin = kBytes * std::size_t(part) / std::size_t(parts);
    const std::size_t end = kBytes * std::size_t(part + 1) / std::size_t(parts);
    const std::size_t middle = (begin + end) / 2;
    const SnapshotMemory::Piece pieces[] = {{{begin, middle - begin}, bytes.data()},
                                            {{middle, end - middle}, bytes.data()}};
    memory.write_part(slot, part, {.step = step, .generation = 1, .parts = parts}, pieces,
                      "step " + std::to_string(step));
  }

  std::string name_ = "distbelief-test-" + std::to_string(getpid());
  SnapshotMemory::Shape shape_{.state_bytes = kBytes, .text_bytes = 100, .fingerprint = 7};
};

TEST_F(SnapshotMemoryTest, IsEmptyAtFirst) { EXPECT_FALSE(open().newest()); }

TEST_F(SnapshotMemoryTest, IsFoundWithTheShapeThatItHas) {
  EXPECT_FALSE(SnapshotMemory::find(name_));
  SnapshotMemory memory = open();
  write(memory, 0, 5, 1, 'a');
  const auto found = SnapshotMemory::find(name_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->shape(), shape_);
  EXPECT_EQ(found->newest()->step, 5);
}

TEST_F(SnapshotMemoryTest, CountsBytesThatWereWrittenInPlaceOnceTheirPartIsWritten) {
  SnapshotMemory memory = open();
  write(memory, 0, 5, 2, 'a');
  write(memory, 1, 4, 2, 'b');
  memory.begin_part(0, 0);
  EXPECT_EQ(memory.newest()->step, 4) << "what was in the slot is being written over";
  std::memset(memory.state(0), 'c', kBytes);
  // Columns of 20 rows.
  const SnapshotMemory::Piece pieces[] = {{{.at = 0, .bytes = 200, .runs = 20, .stride = 500}, nullptr},
                                          {{.at = 200, .bytes = 300, .runs = 20, .stride = 500}, nullptr}};
  memory.write_part(0, 0, {.step = 6, .generation = 1, .parts = 1}, pieces, "in place");
  EXPECT_EQ(memory.newest()->step, 6);
  memory.state(0)[kBytes - 1] ^= std::byte{1};
  EXPECT_EQ(memory.newest()->step, 4);
}

TEST_F(SnapshotMemoryTest, TakesTheNameOfAnother) {
  SnapshotMemory before = open();
  write(before, 0, 5, 1, 'a');
  SnapshotMemory after = SnapshotMemory::open(name_ + "-other", shape_);
  write(after, 0, 6, 1, 'b');
  after.take_name(name_);
  EXPECT_EQ(open().newest()->step, 6);
  EXPECT_FALSE(SnapshotMemory::find(name_ + "-other"));
}

TEST_F(SnapshotMemoryTest, GivesTheNewestWholeSlot) {
  SnapshotMemory memory = open();
  write(memory, 0, 5, 3, 'a');
  write(memory, 1, 9, 2, 'b');
  const auto found = memory.newest();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 9);
  EXPECT_EQ(found->slot, 1);
  EXPECT_EQ(found->text, "step 9");
  EXPECT_EQ(found->state[kBytes - 1], std::byte('b'));
}

TEST_F(SnapshotMemoryTest, HasNothingOnceMadeVoidUntilTheNextIsWritten) {
  SnapshotMemory memory = open();
  write(memory, 0, 5, 3, 'a');
  write(memory, 1, 9, 2, 'b');
  memory.make_void();
  EXPECT_FALSE(open().newest());
  write(memory, 0, 7, 2, 'c');
  ASSERT_TRUE(memory.newest());
  EXPECT_EQ(memory.newest()->step, 7);
}

TEST_F(SnapshotMemoryTest, ASlotWithAPartMissingDoesNotCount) {
  SnapshotMemory memory = open();
  write(memory, 0, 5, 3, 'a');
  write_part(memory, 1, 9, 3, 0, 'b');
  write_part(memory, 1, 9, 3, 2, 'b');
  EXPECT_EQ(memory.newest()->step, 5);
  write_part(memory, 1, 9, 3, 1, 'b');
  EXPECT_EQ(memory.newest()->step, 9);
}

TEST_F(SnapshotMemoryTest, PartsOfTwoStepsDoNotMakeAWhole) {
  SnapshotMemory memory = open();
  write(memory, 0, 5, 2, 'a');
  write_part(memory, 0, 7, 2, 0, 'b');
  EXPECT_FALSE(memory.newest());
}

TEST_F(SnapshotMemoryTest, EveryFlippedByteIsNoticed) {
  SnapshotMemory memory = open();
  write(memory, 0, 5, 2, 'a');
  write(memory, 1, 6, 2, 'b');
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::byte& victim = memory.state(1)[random() % kBytes];
    const std::byte flip = std::byte(1U << (random() % 8));
    victim ^= flip;
    ASSERT_EQ(memory.newest()->step, 5);
    victim ^= flip;
  }
  EXPECT_EQ(memory.newest()->step, 6);
}

TEST_F(SnapshotMemoryTest, OutlivesTheProcessThatWroteIt) {
  const pid_t child = fork();
  if (child == 0) {
    SnapshotMemory memory = open();
    write(memory, 0, 5, 2, 'a');
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(open().newest()->step, 5);
}

TEST_F(SnapshotMemoryTest, AnotherShapeOrMeaningStartsEmpty) {
  {
    SnapshotMemory memory = open();
    write(memory, 0, 5, 2, 'a');
  }
  EXPECT_TRUE(open().newest());
  shape_.fingerprint = 8;
  EXPECT_FALSE(open().newest());
  shape_.state_bytes += 1'000'000;
  EXPECT_FALSE(open().newest());
}

TEST_F(SnapshotMemoryTest, RefusesMoreThanThereIsRoomFor) {
  shape_.state_bytes = std::size_t{1} << 50;
  EXPECT_THROW(open(), Error);
  shape_.state_bytes = kBytes;
  EXPECT_FALSE(open().newest());
}

TEST_F(SnapshotMemoryTest, PiecesOfColumnsMakeAWholeOnlyTogether) {
  constexpr std::size_t kRows = 8, kColumns = 6;
  SnapshotMemory memory = SnapshotMemory::open(name_, {.state_bytes = kRows * kColumns, .text_bytes = 64});
  const std::vector<std::byte> left(kRows * 4, std::byte('l')), right(kRows * 2, std::byte('r'));
  const SnapshotMemory::Piece pieces[] = {{{0, 4, kRows, kColumns}, left.data()},
                                          {{4, 2, kRows, kColumns}, right.data()}};
  memory.write_part(0, 0, {.step = 3, .generation = 1, .parts = 2}, std::span(pieces).first(1), "text");
  EXPECT_FALSE(memory.newest().has_value());
  memory.write_part(0, 1, {.step = 3, .generation = 1, .parts = 2}, std::span(pieces).last(1), "");
  const auto whole = memory.newest();
  ASSERT_TRUE(whole.has_value());
  for (std::size_t i = 0; i < kRows * kColumns; ++i)
    EXPECT_EQ(char(whole->state[i]), i % kColumns < 4 ? 'l' : 'r') << i;
  memory.state(0)[kColumns + 1] ^= std::byte{1};
  EXPECT_FALSE(memory.newest().has_value());
}

}  // namespace
}  // namespace distbelief::checkpoint
