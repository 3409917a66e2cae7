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
  // The head of a record; the row's numbers follow it. Also the format between servers and in messages.
  struct Head {
    std::uint64_t id = 0;
    float accumulated = 0;      // sum of squares; negative in a message: the row is gone
    std::uint32_t version = 0;  // 0: a free place
  };
  static_assert(sizeof(Head) == 16);

  // `secret` keys the hash, so that no client can choose ids that collide.
  RowStore(std::size_t width, std::uint64_t secret);
  ~RowStore();
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  // Prefetch for a lookup: first the index entry, then, once that is in the cache, the row itself.
  void expect_entry(std::uint64_t id) const { __builtin_prefetch(&index_[home(tag_of(id))], 1); }
  void expect_row(std::uint64_t id) const;
  Head* find(std::uint64_t id) const;  // or null
  // A head with version 0 is new: the caller sets its numbers and a version. Records never move.
  Head& find_or_add(std::uint64_t id);
  void erase(std::uint64_t id);

  static float* values(Head& head) { return reinterpret_cast<float*>(&head + 1); }
  static const float* values(const Head& head) { return reinterpret_cast<const float*>(&head + 1); }

  std::size_t rows() const { return rows_; }
  std::size_t places() const { return places_; }        // numbered from 0, including free ones
  Head& at(std::size_t place) const;                    // version 0: free
  std::size_t record_bytes() const { return record_; }  // head and numbers
  std::size_t bytes() const;                            // of memory in use
  // Index bytes per row, at most: the index doubles when three quarters of it are used.
  static constexpr std::size_t kMostIndexBytes = 24;
  // Draws `draws` rows at random and returns the one updated longest ago. There must be a row.
  std::uint64_t oldest_of(int draws, std::uint64_t& random) const;

 private:
  // `place` is the record's place + 1, 0: empty. The tag is the upper half of the id's hash, so that the
  // index grows without reading the rows.
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
