#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace distbelief::server {

// Rows by id: an open-addressing index over records that lie in a few large segments, each twice as long as
// the one before. No allocation per row. Not thread safe.
class RowStore {
 public:
  // How a record begins; the row's numbers follow it. Also its form between servers and in messages.
  struct Head {
    std::uint64_t id = 0;
    float accumulated = 0;      // of squares; below 0, in a message: the row is gone
    std::uint32_t version = 0;  // 0: a free place
  };
  static_assert(sizeof(Head) == 16);

  // `secret`: so that nobody can choose ids that all fall together.
  RowStore(std::size_t width, std::uint64_t secret);
  ~RowStore();
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  // What is looked for soon: first where it is written down, then, when that is here, the row itself.
  void expect_entry(std::uint64_t id) const { __builtin_prefetch(&index_[home(tag_of(id))], 1); }
  void expect_row(std::uint64_t id) const;
  Head* find(std::uint64_t id) const;  // or null
  // One with version 0 is new: the caller gives it its numbers and a version. Records stay where they are.
  Head& find_or_add(std::uint64_t id);
  void erase(std::uint64_t id);

  static float* values(Head& head) { return reinterpret_cast<float*>(&head + 1); }
  static const float* values(const Head& head) { return reinterpret_cast<const float*>(&head + 1); }

  std::size_t rows() const { return rows_; }
  std::size_t places() const { return places_; }        // numbered from 0; free ones too
  Head& at(std::size_t place) const;                    // one with version 0 is free
  std::size_t record_bytes() const { return record_; }  // head and numbers
  std::size_t bytes() const;                            // that it takes up
  // Of the index, for each row: it is twice as large when three quarters of it are used.
  static constexpr std::size_t kMostIndexBytes = 24;
  // The row of `draws` drawn at random that was updated longest ago. There must be one.
  std::uint64_t oldest_of(int draws, std::uint64_t& random) const;

 private:
  // 0: empty. Else the place + 1; the tag is the upper half of the id's hash, so that the index grows without
  // looking at the rows.
  struct Entry {
    std::uint32_t tag = 0;
    std::uint32_t place = 0;
  };
  std::uint32_t tag_of(std::uint64_t id) const;
  std::size_t home(std::uint32_t tag) const { return tag >> shift_; }
  std::size_t position_of(std::uint64_t id) const;  // of its entry, or of the empty one where it belongs
  void grow();
  std::size_t new_place();

  static constexpr std::size_t kFirstRows = 64;
  static constexpr std::size_t kSegments = 26;  // 2^32 places
  std::size_t record_;
  std::uint64_t secret_;
  std::vector<Entry> index_;
  int shift_ = 0;  // 32 - log2 of the index's size
  std::array<std::span<std::byte>, kSegments> segments_{};
  std::size_t rows_ = 0, places_ = 0;
  std::vector<std::uint32_t> free_;
};

}  // namespace distbelief::server
