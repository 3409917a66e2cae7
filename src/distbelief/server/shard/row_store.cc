#include "distbelief/server/shard/row_store.h"

#include <sys/mman.h>

#include <bit>
#include <new>

#include "distbelief/compute/row_values.h"

namespace distbelief::server {
namespace {

constexpr std::size_t kFirstEntries = 128;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLine = 64;

// Zeroed memory from the system; pages never written take no memory.
std::span<std::byte> map_segment(std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Rows are spread over gigabytes: with small pages most accesses would also miss the TLB.
  if (bytes >= 2 * kHugePage) ::madvise(memory, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(memory), bytes};
}

}  // namespace

RowStore::RowStore(std::size_t width, std::uint64_t secret)
    : record_(sizeof(Head) + (width + 1) / 2 * 2 * sizeof(float)),
      secret_(secret),
      index_(kFirstEntries),
      shift_(32 - std::countr_zero(kFirstEntries)) {}

RowStore::~RowStore() {
  for (const std::span<std::byte>& segment : segments_)
    if (!segment.empty()) ::munmap(segment.data(), segment.size());
}

std::uint32_t RowStore::tag_of(std::uint64_t id) const {
  return std::uint32_t(compute::mix(id ^ secret_) >> 32);
}

// Segment k has the places from 64 (2^k - 1) on.
RowStore::Head& RowStore::at(std::size_t place) const {
  const std::size_t k = std::size_t(std::bit_width(place / kFirstRows + 1)) - 1;
  const std::size_t first = kFirstRows * ((std::size_t{1} << k) - 1);
  return *reinterpret_cast<Head*>(segments_[k].data() + (place - first) * record_);
}

std::size_t RowStore::position_of(std::uint64_t id) const {
  const std::uint32_t tag = tag_of(id);
  for (std::size_t i = home(tag);; i = (i + 1) & (index_.size() - 1)) {
    const Entry& entry = index_[i];
    if (entry.place == 0 || (entry.tag == tag && at(entry.place - 1).id == id)) return i;
  }
}

void RowStore::expect_row(std::uint64_t id) const {
  const std::uint32_t tag = tag_of(id);
  const std::size_t i = home(tag);
  const Entry& entry = index_[i];
  if (entry.place == 0 || entry.tag != tag) return;
  const auto* const record = reinterpret_cast<const std::byte*>(&at(entry.place - 1));
  for (std::size_t at = 0; at < record_; at += kLine) __builtin_prefetch(record + at, 1);
}

RowStore::Head* RowStore::find(std::uint64_t id) const {
  const Entry& entry = index_[position_of(id)];
  return entry.place == 0 ? nullptr : &at(entry.place - 1);
}

RowStore::Head& RowStore::find_or_add(std::uint64_t id) {
  std::size_t position = position_of(id);
  if (index_[position].place != 0) return at(index_[position].place - 1);
  if ((rows_ + 1) * 4 > index_.size() * 3) {
    grow();
    position = position_of(id);
  }
  const std::size_t place = new_place();
  index_[position] = {.tag = tag_of(id), .place = std::uint32_t(place + 1)};
  ++rows_;
  Head& head = at(place);
  head = {.id = id};
  return head;
}

std::size_t RowStore::new_place() {
  if (!free_.empty()) {
    const std::size_t place = free_.back();
    free_.pop_back();
    return place;
  }
  const std::size_t k = std::size_t(std::bit_width(places_ / kFirstRows + 1)) - 1;
  if (k >= kSegments) throw std::bad_alloc();
  if (segments_[k].empty()) segments_[k] = map_segment((kFirstRows << k) * record_);
  return places_++;
}

// Entries keep the order of their homes, so that one pass from the lowest places each.
void RowStore::grow() {
  std::vector<Entry> before(index_.size() * 2);
  before.swap(index_);
  --shift_;
  for (const Entry& entry : before) {
    if (entry.place == 0) continue;
    std::size_t i = home(entry.tag);
    while (index_[i].place != 0) i = (i + 1) & (index_.size() - 1);
    index_[i] = entry;
  }
}

// Entries behind the hole move up (Knuth, volume 3, 6.4, algorithm R), so no tombstones are needed.
void RowStore::erase(std::uint64_t id) {
  const std::size_t mask = index_.size() - 1;
  std::size_t hole = position_of(id);
  if (index_[hole].place == 0) return;
  at(index_[hole].place - 1) = {};
  free_.push_back(index_[hole].place - 1);
  --rows_;
  for (std::size_t i = (hole + 1) & mask; index_[i].place != 0; i = (i + 1) & mask) {
    const std::size_t distance_home = (i - home(index_[i].tag)) & mask;
    if (distance_home < ((i - hole) & mask)) continue;
    index_[hole] = index_[i];
    hole = i;
  }
  index_[hole] = {};
}

std::size_t RowStore::bytes() const {
  return index_.size() * sizeof(Entry) + places_ * record_ + free_.capacity() * sizeof(std::uint32_t);
}

std::uint64_t RowStore::oldest_of(int draws, std::uint64_t& random) const {
  const Head* oldest = nullptr;
  for (int i = 0; i < draws; ++i) {
    random = compute::mix(random);
    std::size_t position = std::size_t(random) & (index_.size() - 1);
    while (index_[position].place == 0) position = (position + 1) & (index_.size() - 1);
    const Head& head = at(index_[position].place - 1);
    if (oldest == nullptr || head.version < oldest->version) oldest = &head;
  }
  return oldest->id;
}

}  // namespace distbelief::server
