#include "distbelief/data/io/fetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/data/io/file_lock.h"
#include "distbelief/data/io/http.h"

namespace distbelief::data {
namespace {

namespace fs = std::filesystem;

// A file under its temporary name, and the hash of its bytes so far.
class PartialFile {
 public:
  PartialFile(fs::path target, const RemoteFile& wanted)
      : target_(std::move(target)),
        partial_(target_.parent_path() / (".part-" + target_.filename().string())),
        wanted_(wanted) {
    open_file(O_RDWR | O_CREAT);
    std::array<char, 1 << 16> buffer{};
    for (ssize_t got = 0; (got = ::read(descriptor_, buffer.data(), buffer.size())) > 0;)
      add(buffer.data(), got);
    if (bytes_ > wanted_.bytes) clear();
  }
  ~PartialFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  bool is_right() const { return bytes_ == wanted_.bytes && hash_->hex() == wanted_.sha256; }
  std::string sha256() const { return hash_->hex(); }

  void append(std::span<const std::uint8_t> bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t written = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
      if (written < 0 && errno != EINTR) fail();
      if (written > 0) done += std::size_t(written);
    }
    add(bytes.data(), ssize_t(bytes.size()));
  }

  void clear() {
    close(descriptor_);
    open_file(O_RDWR | O_CREAT | O_TRUNC);
    hash_.emplace();
    bytes_ = 0;
  }

  void remove() {
    std::error_code ignored;
    fs::remove(partial_, ignored);
  }

  void commit() {
    if (fsync(descriptor_) != 0 || std::rename(partial_.c_str(), target_.c_str()) != 0) fail();
  }

 private:
  void open_file(int flags) {
    descriptor_ = open(partial_.c_str(), flags | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail();
  }
  void add(const void* data, ssize_t bytes) {
    hash_->update(data, std::size_t(bytes));
    bytes_ += std::uint64_t(bytes);
  }
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot write '{}': {}; is there room, and may it be written?", partial_.string(),
                            std::strerror(errno)));
  }

  fs::path target_;
  fs::path partial_;
  const RemoteFile& wanted_;
  std::optional<Sha256> hash_{std::in_place};
  std::uint64_t bytes_ = 0;
  int descriptor_ = -1;
};

std::string sha256_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 1 << 16> buffer{};
  Sha256 hash;
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0)
    hash.update(buffer.data(), std::size_t(file.gcount()));
  return hash.hex();
}

bool is_there(const fs::path& folder, const RemoteFile& file) {
  std::error_code missing;
  return fs::file_size(folder / file.name, missing) == file.bytes && !missing &&
         sha256_of(folder / file.name) == file.sha256;
}

struct AllIsHere {};

// Fetches a file from one home. If the hash is wrong after a resumed fetch, the old part may be damaged:
// repeats once from the first byte.
void fetch_from(const HttpClient& client, const std::string& url, const RemoteFile& file,
                PartialFile& partial, const FetchOptions& options, Fetched& fetched) {
  for (;;) {
    const std::uint64_t had = partial.bytes();
    const auto take = [&](std::span<const std::uint8_t> bytes, std::uint64_t) {
      const std::size_t own = std::min<std::size_t>(bytes.size(), file.bytes - partial.bytes());
      partial.append(bytes.first(own));
      fetched.bytes += own;
      if (options.progress) options.progress(file.name, partial.bytes(), file.bytes);
      if (partial.bytes() == file.bytes) throw AllIsHere{};
    };
    try {
      if (had < file.bytes) client.download(url, had, {.take = take, .restart = [&] { partial.clear(); }});
    } catch (const AllIsHere&) {  // the file is complete, whatever length the server claims
    }
    if (partial.is_right()) {
      fetched.kept_bytes += had;
      return;
    }
    const std::string found = partial.sha256();
    const std::uint64_t bytes = partial.bytes();
    partial.clear();
    if (had > 0) continue;
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("'{}' is not the file it should be: {} bytes with SHA-256 {} wanted, {} with {} found; "
                    "nothing of it was kept, try --mirror",
                    url, file.bytes, file.sha256, bytes, found));
  }
}

void fetch_file(const RemoteSet& set, const RemoteFile& file, const FetchOptions& options, Fetched& fetched) {
  if (is_there(options.folder, file)) {
    fetched.kept_bytes += file.bytes;
    return;
  }
  const std::vector<std::string> homes = options.mirror.empty() ? set.homes : std::vector{options.mirror};
  const HttpClient client({.ca_file = options.ca_file});
  PartialFile partial(options.folder / file.name, file);
  for (std::size_t home = 0; home < homes.size(); ++home) {
    const std::string url = homes[home] + (homes[home].ends_with('/') ? "" : "/") + file.name;
    try {
      fetch_from(client, url, file, partial, options, fetched);
      partial.commit();
      return;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kBadInput) partial.clear();
      if (partial.bytes() == 0) partial.remove();
      if (home + 1 == homes.size()) throw;
    }
  }
}

}  // namespace

Fetched fetch(const RemoteSet& set, const FetchOptions& options) {
  if (set.homes.empty() && options.mirror.empty())
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("nobody says where '{}' is to be fetched from; give the set \"homes\", or --mirror URL",
                    set.name));
  std::error_code failure;
  fs::create_directories(options.folder, failure);
  if (failure)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot make folder '{}': {}", options.folder.string(), failure.message()));
  const FileLock lock(options.folder,
                      {.waiting = fmt::format("another process fetches into '{}'", options.folder.string()),
                       .advice = "name another folder with --to"});
  Fetched fetched;
  const auto there = [&](const RemoteFile& file) { return is_there(options.folder, file); };
  if (!set.unpacked.empty() && std::all_of(set.unpacked.begin(), set.unpacked.end(), there)) {
    for (const RemoteFile& file : set.unpacked) fetched.kept_bytes += file.bytes;
    return fetched;
  }
  for (const RemoteFile& file : set.files) fetch_file(set, file, options, fetched);
  if (!set.unpacked.empty()) {
    unpack_tar(options.folder / set.files.front().name, set.unpacked, options.folder);
    fs::remove(options.folder / set.files.front().name);
  }
  sync_directory(options.folder);
  return fetched;
}

}  // namespace distbelief::data
