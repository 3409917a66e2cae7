#include "distbelief/checkpoint/snapshot_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"

namespace distbelief::checkpoint {
namespace {

constexpr std::uint64_t kMagic = 0x32706e5342747344;  // "DstBSnp2"
constexpr std::size_t kPage = 4096;
constexpr std::int64_t kVoid = -1;

std::size_t round_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::string path_of(const std::string& name) { return "/" + name; }

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error(ErrorCode::kUnavailable, fmt::format("{}: {}", what, std::strerror(error)));
}

// Allocates the memory now: with a sparse file, a later shortage would end a worker with SIGBUS.
void make_room(int file, const std::string& name, std::size_t bytes) {
  if (ftruncate(file, 0) == 0 && posix_fallocate(file, 0, off_t(bytes)) == 0) return;
  close(file);
  shm_unlink(path_of(name).c_str());
  throw Error(ErrorCode::kUnavailable,
              fmt::format("/dev/shm has no room for snapshots of {:.1f} MB; give it more (mount -o "
                          "remount,size=...; containers: --shm-size) or set checkpoint.snapshots = false",
                          double(bytes) / 1e6));
}

}  // namespace

struct SnapshotMemory::Header {
  std::uint64_t magic;
  Shape shape;
};

// A worker's record of its part of a slot. `step` is invalidated first and set last.
struct SnapshotMemory::Part {
  std::atomic<std::int64_t> step;
  std::int32_t generation;
  std::int32_t parts;
  std::uint64_t checksum;
  std::uint64_t text_bytes;
  std::uint64_t pieces;
};

std::size_t SnapshotMemory::bytes_needed(const Shape& shape) {
  const std::size_t slot = round_up(kMostParts * sizeof(Part)) + round_up(shape.pieces * sizeof(Place)) +
                           round_up(shape.text_bytes) + round_up(shape.state_bytes);
  return kPage + kSlots * slot;
}

SnapshotMemory SnapshotMemory::open(const std::string& name, const Shape& shape) {
  const int file = shm_open(path_of(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) fail(fmt::format("cannot open the snapshots /dev/shm/{}", name), errno);
  SnapshotMemory memory;
  memory.name_ = name;
  memory.shape_ = shape;
  memory.size_ = bytes_needed(shape);
  struct stat status {};
  const bool fits = fstat(file, &status) == 0 && std::size_t(status.st_size) == memory.size_;
  if (!fits) make_room(file, name, memory.size_);
  void* place = mmap(nullptr, memory.size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (place == MAP_FAILED) {
    const int error = errno;
    close(file);
    fail("cannot map the snapshots", error);
  }
  flock(file, LOCK_SH | LOCK_NB);  // marks the memory as in use; nothing blocks on this lock
  memory.file_ = file;
  memory.data_ = static_cast<std::byte*>(place);
  Header& header = memory.header();
  if (!fits || header.magic != kMagic || !(header.shape == shape)) {
    memory.make_void();
    header.shape = shape;
    header.magic = kMagic;
  }
  return memory;
}

void SnapshotMemory::make_void() {
  for (int slot = 0; slot < kSlots; ++slot)
    for (int index = 0; index < kMostParts; ++index) part(slot, index).step.store(kVoid);
}

std::optional<SnapshotMemory> SnapshotMemory::find(const std::string& name) {
  const int file = shm_open(path_of(name).c_str(), O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return std::nullopt;
  Header header{};
  struct stat status {};
  const bool ours = fstat(file, &status) == 0 && pread(file, &header, sizeof(header), 0) == sizeof(header) &&
                    header.magic == kMagic && std::size_t(status.st_size) == bytes_needed(header.shape);
  close(file);
  if (!ours) return std::nullopt;
  return open(name, header.shape);
}

void SnapshotMemory::take_name(const std::string& name) {
  if (rename(("/dev/shm" + path_of(name_)).c_str(), ("/dev/shm" + path_of(name)).c_str()) != 0)
    fail(fmt::format("cannot rename the snapshots /dev/shm/{} to {}", name_, name), errno);
  name_ = name;
}

void SnapshotMemory::remove(const std::string& name) {
  if (shm_unlink(path_of(name).c_str()) != 0 && errno != ENOENT)
    fail(fmt::format("cannot remove the snapshots /dev/shm/{}", name), errno);
}

SnapshotMemory::SnapshotMemory(SnapshotMemory&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      shape_(other.shape_),
      name_(std::move(other.name_)) {}

SnapshotMemory::~SnapshotMemory() {
  if (data_ != nullptr) munmap(data_, size_);
  if (file_ >= 0) close(file_);
}

SnapshotMemory::Header& SnapshotMemory::header() const { return *reinterpret_cast<Header*>(data_); }

SnapshotMemory::Part& SnapshotMemory::part(int slot, int index) const {
  const std::size_t slot_bytes = (size_ - kPage) / kSlots;
  return reinterpret_cast<Part*>(data_ + kPage + std::size_t(slot) * slot_bytes)[index];
}

SnapshotMemory::Place* SnapshotMemory::places(int slot, int index, int parts) const {
  std::byte* all = reinterpret_cast<std::byte*>(&part(slot, 0)) + round_up(kMostParts * sizeof(Part));
  return reinterpret_cast<Place*>(all) + std::size_t(index) * (shape_.pieces / std::size_t(parts));
}

std::byte* SnapshotMemory::text(int slot) const {
  return reinterpret_cast<std::byte*>(places(slot, 0, 1)) + round_up(shape_.pieces * sizeof(Place));
}

bool SnapshotMemory::fits(const Place& place) const {
  const std::uint64_t most = shape_.state_bytes;
  if (place.runs == 0 || place.at > most || place.bytes > most - place.at) return false;
  const std::uint64_t room = most - place.at - place.bytes;  // largest distance of the last run
  return place.runs == 1 || (place.stride >= place.bytes && place.stride <= room / (place.runs - 1));
}

std::byte* SnapshotMemory::state(int slot) const { return text(slot) + round_up(shape_.text_bytes); }

void SnapshotMemory::begin_part(int slot, int index) { part(slot, index).step.store(kVoid); }

void SnapshotMemory::write_part(int slot, int index, const Stamp& stamp, std::span<const Piece> pieces,
                                const std::string& text) {
  DISTBELIEF_INVARIANT(slot < kSlots && index < stamp.parts && stamp.parts <= kMostParts);
  if (pieces.size() > shape_.pieces / std::size_t(stamp.parts))
    throw Error(ErrorCode::kInternal,
                fmt::format("a snapshot has room for {} pieces of each of {} parts, not {}",
                            shape_.pieces / std::size_t(stamp.parts), stamp.parts, pieces.size()));
  if (text.size() > shape_.text_bytes)
    throw Error(ErrorCode::kInternal, fmt::format("a snapshot has room for {} bytes of text, not {}",
                                                  shape_.text_bytes, text.size()));
  Part& mine = part(slot, index);
  mine.step.store(kVoid);
  Xxh3 sum;
  Place* table = places(slot, index, stamp.parts);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    DISTBELIEF_INVARIANT(fits(piece));
    for (std::uint64_t run = 0; run < piece.runs; ++run) {
      std::byte* const to = state(slot) + piece.at + run * piece.stride;
      const std::byte* const from = piece.from == nullptr ? to : piece.from + run * piece.bytes;
      if (from != to) std::memcpy(to, from, piece.bytes);
      sum.update(from, piece.bytes);
    }
    table[i] = piece;
  }
  if (index == 0) std::memcpy(this->text(slot), text.data(), text.size());
  if (index == 0) sum.update(text.data(), text.size());
  mine.text_bytes = index == 0 ? text.size() : 0;
  mine.pieces = pieces.size();
  mine.generation = stamp.generation;
  mine.parts = stamp.parts;
  mine.checksum = sum.value();
  mine.step.store(stamp.step, std::memory_order_release);
}

std::optional<SnapshotMemory::Whole> SnapshotMemory::whole(int slot) const {
  const Part& first = part(slot, 0);
  const std::int64_t step = first.step.load(std::memory_order_acquire);
  if (step == kVoid || first.parts < 1 || first.parts > kMostParts || first.text_bytes > shape_.text_bytes)
    return std::nullopt;
  std::size_t covered = 0;
  for (int index = 0; index < first.parts; ++index) {
    const Part& one = part(slot, index);
    if (one.step.load(std::memory_order_acquire) != step || one.generation != first.generation ||
        one.parts != first.parts || one.pieces > shape_.pieces / std::size_t(first.parts))
      return std::nullopt;
    Xxh3 sum;
    const Place* table = places(slot, index, first.parts);
    for (std::size_t i = 0; i < one.pieces; ++i) {
      if (!fits(table[i])) return std::nullopt;
      for (std::uint64_t run = 0; run < table[i].runs; ++run)
        sum.update(state(slot) + table[i].at + run * table[i].stride, table[i].bytes);
      covered += table[i].runs * table[i].bytes;
    }
    if (index == 0) sum.update(text(slot), one.text_bytes);
    if (sum.value() != one.checksum) return std::nullopt;
  }
  if (covered != shape_.state_bytes) return std::nullopt;
  return Whole{slot, step, first.generation,
               std::string(reinterpret_cast<const char*>(text(slot)), first.text_bytes), state(slot)};
}

std::optional<SnapshotMemory::Whole> SnapshotMemory::newest() const {
  std::optional<Whole> best;
  for (int slot = 0; slot < kSlots; ++slot) {
    std::optional<Whole> found = whole(slot);
    if (found && (!best || found->step > best->step)) best = std::move(found);
  }
  return best;
}

}  // namespace distbelief::checkpoint
