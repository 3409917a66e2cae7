#include "distbelief/data/slices/pack.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"
#include "distbelief/data/slices/slice.h"

namespace distbelief::data {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kSlicesEnding = ".slices";

constexpr std::uint64_t kLeastEntryBytes = 36;  // minimum size of a slice's entry in the index

// Refuses early to write an index that is too large to read.
void check_index_bytes(std::uint64_t bytes) {
  if (bytes <= kMostIndexBytes) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("the index would have {} bytes or more, {} at most can be read; pack with a larger "
                          "--slice-mb",
                          bytes, kMostIndexBytes));
}

bool has_classes(const SampleSpec& spec) {
  return spec.classes > 0 && spec.target_shape.empty() && spec.target_type == ElementType::kInt64;
}

void count_class(std::vector<std::uint64_t>& balance, const SampleSpec& spec, std::int64_t label) {
  if (label < 0 || label >= spec.classes)
    throw Error(ErrorCode::kBadInput,
                fmt::format("the source has a sample of class {}, outside 0 to {}", label, spec.classes - 1));
  ++balance[static_cast<std::size_t>(label)];
}

bool is_of_packing(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(kSlicesEnding) || name.starts_with(kTemporaryPrefix);
}

// Prepares a folder for a new set: removes the remains of an interrupted packing and refuses foreign files.
void clear_for_packing(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot make folder '{}': {}", folder.string(), failure.message()));
  if (fs::exists(folder / kIndexName))
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("'{}' has a packed set already; remove it or name another folder", folder.string()));
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!is_of_packing(entry.path()))
      throw Error(ErrorCode::kBadInput,
                  fmt::format("'{}' has other files in it, such as '{}'; name an empty or a new folder",
                              folder.string(), entry.path().filename().string()));
    left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove(path);
}

// One file of one part: the unit of work for the threads.
struct FileJob {
  const Source* source;
  PartIndex* part;
  std::uint64_t file;
  std::uint64_t first_slice;
  std::uint64_t end_slice;
};

class Packing {
 public:
  Packing(const DataSet& set, const PackOptions& options) : options_(options) {
    index_.origin = options.origin;
    index_.spec = set.train->spec();
    index_.learnt = set.learnt;
    each_ = sample_bytes(index_.spec);
    index_.slice_samples = std::max<std::uint64_t>(
        1, std::min(options.slice_bytes, kMostSliceBytes) / std::max<std::uint64_t>(1, each_.sum()));
    if (each_.sum() > kMostSliceBytes)
      throw Error(ErrorCode::kBadInput, fmt::format("samples of {} bytes are larger than a slice may be, {}",
                                                    each_.sum(), kMostSliceBytes));
    if (index_.spec.classes > kMostClasses)
      throw Error(ErrorCode::kBadInput, fmt::format("a packed set has at most {} classes, this one has {}",
                                                    kMostClasses, index_.spec.classes));
    lay_out("train", *set.train, index_.train);
    lay_out("test", *set.test, index_.test);
    check_index_bytes((index_.train.slices.size() + index_.test.slices.size()) * kLeastEntryBytes);
  }

  SliceIndex run() {
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < std::max(1, options_.threads); ++i) threads.emplace_back([this] { work(); });
    }
    if (failure_) std::rethrow_exception(failure_);
    std::string text = to_text(index_);
    if (text.size() > kMostIndexBytes && index_.learnt) {  // rather drop this than the samples
      index_.learnt.reset();
      text = to_text(index_);
    }
    check_index_bytes(text.size());
    write_durably(options_.folder / kIndexName, text);
    return std::move(index_);
  }

 private:
  void lay_out(const char* name, const Source& source, PartIndex& part) {
    part.samples = source.size();
    all_ += part.samples;
    if (has_classes(index_.spec)) part.balance.resize(static_cast<std::size_t>(index_.spec.classes));
    const std::uint64_t slices = (part.samples + index_.slice_samples - 1) / index_.slice_samples;
    part.slices.resize(slices);
    const std::uint64_t per_file = std::max<std::uint64_t>(1, options_.slices_per_file);
    for (std::uint64_t slice = 0; slice < slices; slice += per_file) {
      jobs_.push_back({&source, &part, part.files.size(), slice, std::min(slices, slice + per_file)});
      part.files.push_back(fmt::format("{}-{:05}{}", name, part.files.size(), kSlicesEnding));
    }
  }

  void work() try {
    pthread_setname_np(pthread_self(), "db-pack");
    for (;;) {
      const std::size_t mine = next_job_.fetch_add(1);
      if (mine >= jobs_.size() || failed_) return;
      write_file(jobs_[mine]);
    }
  } catch (...) {
    failed_ = true;
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }

  void write_file(const FileJob& job) {
    DurableFile file(options_.folder / job.part->files[job.file]);
    std::vector<std::uint8_t> raw;
    std::vector<std::uint64_t> balance(job.part->balance.size());
    for (std::uint64_t number = job.first_slice; number < job.end_slice && !failed_; ++number) {
      const std::uint64_t first = number * index_.slice_samples;
      const std::uint64_t samples = std::min(index_.slice_samples, job.part->samples - first);
      collect(*job.source, {first, first + samples}, raw, balance);
      const std::vector<std::uint8_t> slice = encode_slice(raw, samples, options_.level);
      job.part->slices[number] = {.first = first,
                                  .samples = samples,
                                  .file = job.file,
                                  .offset = file.bytes(),
                                  .bytes = slice.size(),
                                  .raw_bytes = raw.size(),
                                  .xxh3 = parse_slice_header(slice, {}).xxh3};
      file.write(slice.data(), slice.size());
      note_done(samples);
    }
    if (!failed_) file.commit();
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < balance.size(); ++i) job.part->balance[i] += balance[i];
  }

  void collect(const Source& source, Range samples, std::vector<std::uint8_t>& raw,
               std::vector<std::uint64_t>& balance) const {
    source.announce(samples);
    raw.resize(samples.size() * each_.sum());
    std::uint8_t* targets = raw.data() + samples.size() * each_.input;
    // Sources write aligned integers, but targets may be unaligned in the slice.
    std::vector<std::int64_t> target((each_.target + sizeof(std::int64_t) - 1) / sizeof(std::int64_t));
    for (std::uint64_t i = 0; i < samples.size(); ++i) {
      source.read(samples.begin + i, raw.data() + i * each_.input, target.data());
      std::memcpy(targets + i * each_.target, target.data(), each_.target);
      if (!balance.empty()) count_class(balance, index_.spec, target[0]);
    }
  }

  void note_done(std::uint64_t samples) {
    const std::lock_guard lock(mutex_);
    done_ += samples;
    if (options_.progress) options_.progress(done_, all_);
  }

  const PackOptions& options_;
  SliceIndex index_;
  SampleBytes each_;
  std::vector<FileJob> jobs_;
  std::atomic<std::size_t> next_job_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards the members below and the balances
  std::exception_ptr failure_;
  std::uint64_t done_ = 0;
  std::uint64_t all_ = 0;
};

}  // namespace

SliceIndex pack(const DataSet& set, const PackOptions& options) {
  clear_for_packing(options.folder);
  return Packing(set, options).run();
}

void remove_packing(const fs::path& folder) {
  constexpr int kTries = 100;  // a concurrent packing writes further files until the folder is gone
  std::error_code error;
  if (fs::exists(folder / kIndexName, error)) return;  // the set is complete
  for (int i = 0; i < kTries && fs::exists(folder, error); ++i) {
    fs::remove(folder / kIndexName, error);
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      if (std::error_code ignored; is_of_packing(at->path())) fs::remove(at->path(), ignored);
    fs::remove(folder, error);  // succeeds only for an empty folder
  }
}

std::vector<std::uint64_t> class_balance(const Source& source) {
  const SampleSpec& spec = source.spec();
  if (!has_classes(spec)) return {};
  std::vector<std::uint64_t> balance(static_cast<std::size_t>(spec.classes));
  for (std::uint64_t i = 0; i < source.size(); ++i) {
    std::int64_t nothing = 0, label = 0;
    source.read_columns(i, 0, 0, &nothing, &label);
    count_class(balance, spec, label);
  }
  return balance;
}

}  // namespace distbelief::data
