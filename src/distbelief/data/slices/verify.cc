#include "distbelief/data/slices/verify.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/data/slices/depot.h"
#include "distbelief/data/slices/index.h"
#include "distbelief/data/slices/indexed_slice.h"

namespace distbelief::data {
namespace {

class Verification {
 public:
  Verification(const std::string& place, const std::function<void(std::uint64_t, std::uint64_t)>& progress,
               const std::string& ca_file)
      : place_(place),
        depot_(open_depot(place, ca_file)),
        index_(parse_slice_index(depot_->read_all(std::string(kIndexName), kMostIndexBytes),
                                 depot_->name_of(std::string(kIndexName)))),
        progress_(progress) {
    for (const PartIndex* part : {&index_.train, &index_.test}) {
      result_.files += part->files.size();
      for (const SliceEntry& slice : part->slices) {
        work_.push_back({part, &slice});
        result_.bytes += slice.bytes;
      }
    }
    result_.slices = work_.size();
  }

  Verified run(int threads) {
    for (const PartIndex* part : {&index_.train, &index_.test}) check_lengths(*part);
    {
      std::vector<std::jthread> workers;
      for (int i = 0; i < std::max(1, threads); ++i) workers.emplace_back([this] { work(); });
    }
    std::sort(result_.damage.begin(), result_.damage.end());
    return std::move(result_);
  }

 private:
  struct Piece {
    const PartIndex* part;
    const SliceEntry* slice;
  };

  void work() {
    pthread_setname_np(pthread_self(), "db-verify");
    for (std::size_t at = next_++; at < work_.size(); at = next_++) {
      std::string damage;
      try {
        check(work_[at]);
      } catch (const Error& error) {
        damage = error.message();
      }
      const std::lock_guard lock(mutex_);
      if (!damage.empty()) result_.damage.push_back(damage);
      if (progress_) progress_(++done_, work_.size());
    }
  }

  void check(const Piece& piece) const {
    const std::string& file = piece.part->files[piece.slice->file];
    const SlicePlace place{depot_->name_of(file), piece.slice->offset};
    std::vector<std::uint8_t> bytes(piece.slice->bytes);
    depot_->read(file, piece.slice->offset, bytes);
    decode_indexed(index_, *piece.slice, bytes, place);
  }

  // Finds bytes after the last slice of a file; missing bytes are found by reading.
  void check_lengths(const PartIndex& part) {
    if (is_url(place_)) return;
    for (std::size_t i = 0; i < part.slices.size(); ++i) {
      const SliceEntry& slice = part.slices[i];
      if (i + 1 < part.slices.size() && part.slices[i + 1].file == slice.file) continue;
      const std::string name = depot_->name_of(part.files[slice.file]);
      std::error_code missing;  // reading the slices reports it
      const std::uint64_t bytes = std::filesystem::file_size(name, missing);
      if (!missing && bytes > slice.offset + slice.bytes)
        result_.damage.push_back(fmt::format("'{}', byte {}: {} bytes follow after the last slice", name,
                                             slice.offset + slice.bytes, bytes - slice.offset - slice.bytes));
    }
  }

  std::string place_;
  std::unique_ptr<Depot> depot_;
  SliceIndex index_;
  const std::function<void(std::uint64_t, std::uint64_t)>& progress_;
  std::vector<Piece> work_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;  // guards the members below
  std::uint64_t done_ = 0;
  Verified result_;
};

}  // namespace

Verified verify_packed(const std::string& place, int threads,
                       const std::function<void(std::uint64_t done, std::uint64_t all)>& progress,
                       const std::string& ca_file) {
  return Verification(place, progress, ca_file).run(threads);
}

}  // namespace distbelief::data
