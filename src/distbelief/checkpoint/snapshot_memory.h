#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace distbelief::checkpoint {

// Training state in a host's shared memory under a name, so that it outlives the processes that wrote it.
// Writes alternate between two slots: one stays whole while the other is written. Each worker of a host
// writes one part with its checksum. A slot is valid only when all parts have the same step and matching
// checksums, so a worker may die at any moment. docs/reference/snapshots.md describes the bytes.
//
// The workers need no lock: a worker writes to the next slot only after all parts of this slot are complete,
// because a step lies between them and no step ends without all workers.
class SnapshotMemory {
 public:
  static constexpr int kSlots = 2;
  static constexpr int kMostParts = 1024;

  struct Shape {
    std::size_t state_bytes = 0;
    std::size_t text_bytes = 0;     // room for the text
    std::size_t pieces = 4096;      // most pieces of a snapshot, divided evenly among its parts
    std::uint64_t fingerprint = 0;  // identifies the meaning of the bytes; other fingerprints do not match
    friend bool operator==(const Shape&, const Shape&) = default;
  };
  static std::size_t bytes_needed(const Shape& shape);

  // Maps the memory with that name; creates it when it is missing or has another shape. `name` is one word.
  // Throws Error(kUnavailable) when there is no space.
  static SnapshotMemory open(const std::string& name, const Shape& shape);
  // Maps existing memory with its own shape; nothing when there is none.
  static std::optional<SnapshotMemory> find(const std::string& name);
  static void remove(const std::string& name);  // no error when it is missing

  SnapshotMemory(SnapshotMemory&& other) noexcept;
  ~SnapshotMemory();

  const Shape& shape() const { return shape_; }
  // Renames this memory to `name` atomically, replacing the memory that had the name.
  void take_name(const std::string& name);

  // Runs of bytes that are consecutive in the source and `stride` apart in the state.
  struct Place {
    std::uint64_t at = 0;
    std::uint64_t bytes = 0;  // length of one run
    std::uint64_t runs = 1;
    std::uint64_t stride = 0;
  };
  struct Piece : Place {
    const std::byte* from = nullptr;  // null: its bytes are in the state already, since begin_part()
  };
  struct Stamp {
    std::int64_t step = 0;
    int generation = 0;
    int parts = 1;
  };
  // Writes part `part` of a snapshot; part 0 also writes the text. Invalidates the slot's previous content
  // first.
  void write_part(int slot, int part, const Stamp& stamp, std::span<const Piece> pieces,
                  const std::string& text);

  // Makes the part void: until it is written, bytes may come into state(slot) in any order.
  void begin_part(int slot, int part);

  struct Whole {
    int slot = 0;
    std::int64_t step = 0;
    int generation = 0;
    std::string text;
    const std::byte* state = nullptr;
  };
  // The newest complete slot, with all checksums verified.
  std::optional<Whole> newest() const;

  // Invalidates all snapshots. No part may be written meanwhile.
  void make_void();

  // The state of a slot: to write pieces into it after begin_part(), for fault injection, and for tests.
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
