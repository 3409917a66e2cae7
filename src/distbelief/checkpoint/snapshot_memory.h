#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace distbelief::checkpoint {

// Training state in the shared memory of a host, under a name, so that it outlives the processes that wrote
// it. Two slots take turns: while one is written the other stays whole. The workers of a host each write a
// part, with its checksum; a slot counts only when all parts of one step are there and their checksums hold,
// so a worker may die at any moment. docs/reference/snapshots.md describes the bytes.
//
// The workers need no lock: a worker writes its part of the next slot only after all have written theirs of
// this one, because a step lies between and no step ends without everybody.
class SnapshotMemory {
 public:
  static constexpr int kSlots = 2;
  static constexpr int kMostParts = 1024;

  struct Shape {
    std::size_t state_bytes = 0;
    std::size_t text_bytes = 0;     // room for the text
    std::size_t pieces = 4096;      // that a snapshot may have, shared out evenly over its parts
    std::uint64_t fingerprint = 0;  // of what the bytes mean; another one's snapshot is not taken for ours
    friend bool operator==(const Shape&, const Shape&) = default;
  };
  static std::size_t bytes_needed(const Shape& shape);

  // Maps the memory of that name, made anew when it is missing or has another shape. `name` is one word.
  // Throws Error(kUnavailable) when there is no room.
  static SnapshotMemory open(const std::string& name, const Shape& shape);
  // That of that name with the shape that it has; nothing when there is none.
  static std::optional<SnapshotMemory> find(const std::string& name);
  static void remove(const std::string& name);  // nothing to do when it is not there

  SnapshotMemory(SnapshotMemory&& other) noexcept;
  ~SnapshotMemory();

  const Shape& shape() const { return shape_; }
  // Gets the name of another one, which goes: from one moment to the next the name stands for this memory.
  void take_name(const std::string& name);

  // Runs of bytes that lie one after another where they come from, and `stride` apart in the state.
  struct Place {
    std::uint64_t at = 0;
    std::uint64_t bytes = 0;  // of one run
    std::uint64_t runs = 1;
    std::uint64_t stride = 0;
  };
  struct Piece : Place {
    const std::byte* from = nullptr;
  };
  struct Stamp {
    std::int64_t step = 0;
    int generation = 0;
    int parts = 1;
  };
  // Writes part `part` of a snapshot; part 0 brings the text. Whoever comes back to a slot makes what was in
  // it void first.
  void write_part(int slot, int part, const Stamp& stamp, std::span<const Piece> pieces,
                  const std::string& text);

  struct Whole {
    int slot = 0;
    std::int64_t step = 0;
    int generation = 0;
    std::string text;
    const std::byte* state = nullptr;
  };
  // The newest slot that is whole, all checksums verified.
  std::optional<Whole> newest() const;

  // Nothing that was written counts any more. No part may be written meanwhile.
  void make_void();

  // For fault injection and tests: the state of a slot.
  std::byte* state(int slot) const;

 private:
  struct Part;
  struct Header;
  SnapshotMemory() = default;
  Header& header() const;
  Part& part(int slot, int index) const;
  Place* places(int slot, int index, int parts) const;
  bool fits(const Place& place) const;
  std::byte* text(int slot) const;
  std::optional<Whole> whole(int slot) const;

  int file_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Shape shape_;
  std::string name_;
};

}  // namespace distbelief::checkpoint
