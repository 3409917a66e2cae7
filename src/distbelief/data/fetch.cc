#include "distbelief/data/fetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/base/options.h"
#include "distbelief/data/http.h"
#include "distbelief/data/input_file.h"
#include "distbelief/data/whole_file.h"

namespace distbelief::data {
namespace {

namespace fs = std::filesystem;

// A file under its unfinished name, and the hash of what it has so far.
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
    if (bytes_ + bytes.size() > wanted_.bytes)
      throw Error(ErrorCode::kBadInput, fmt::format("'{}' should have {} bytes, the server sends more",
                                                    wanted_.name, wanted_.bytes));
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

// One home's try at a file. A wrong hash after a continued fetch may be the old part's fault: once more, from
// the first byte.
void fetch_from(const HttpClient& client, const std::string& url, const RemoteFile& file,
                PartialFile& partial, const FetchOptions& options, Fetched& fetched) {
  for (;;) {
    const std::uint64_t had = partial.bytes();
    const auto take = [&](std::span<const std::uint8_t> bytes, std::uint64_t) {
      partial.append(bytes);
      fetched.bytes += bytes.size();
      if (options.progress) options.progress(file.name, partial.bytes(), file.bytes);
    };
    if (had < file.bytes) client.download(url, had, {.take = take, .restart = [&] { partial.clear(); }});
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
  const HttpClient client;
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

RemoteSet idx_set(const char* name, std::vector<std::string> homes, const char* installed,
                  const std::array<RemoteFile, 4>& files) {
  return {.name = name,
          .homes = std::move(homes),
          .files = {files.begin(), files.end()},
          .installed = installed,
          .folder = fmt::format("data/{}", name)};
}

std::vector<RemoteSet> make_remote_sets() {
  constexpr std::uint64_t kBatch = 30'730'000;  // 10,000 images of CIFAR
  return {
      idx_set("mnist",
              {"https://ossci-datasets.s3.amazonaws.com/mnist",
               "https://storage.googleapis.com/cvdf-datasets/mnist"},
              "/usr/share/datasets/mnist",
              {{{"train-images-idx3-ubyte.gz", 9'912'422,
                 "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
                {"train-labels-idx1-ubyte.gz", 28'881,
                 "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
                {"t10k-images-idx3-ubyte.gz", 1'648'877,
                 "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
                {"t10k-labels-idx1-ubyte.gz", 4'542,
                 "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}}),
      idx_set("fashion_mnist", {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"},
              "/usr/share/datasets/fashion-mnist",
              {{{"train-images-idx3-ubyte.gz", 26'421'880,
                 "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
                {"train-labels-idx1-ubyte.gz", 29'515,
                 "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
                {"t10k-images-idx3-ubyte.gz", 4'422'102,
                 "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
                {"t10k-labels-idx1-ubyte.gz", 5'148,
                 "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}}}),
      {.name = "cifar10",
       .homes = {"https://www.cs.toronto.edu/~kriz"},
       .files = {{"cifar-10-binary.tar.gz", 170'052'171,
                  "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}},
       .installed = "",
       .folder = "data/cifar10",
       .unpacked =
           {{"data_batch_1.bin", kBatch, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
            {"data_batch_2.bin", kBatch, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
            {"data_batch_3.bin", kBatch, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
            {"data_batch_4.bin", kBatch, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
            {"data_batch_5.bin", kBatch, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
            {"test_batch.bin", kBatch, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}}},
  };
}

}  // namespace

const std::vector<RemoteSet>& remote_sets() {
  static const std::vector<RemoteSet> sets = make_remote_sets();
  return sets;
}

const RemoteSet& find_remote_set(const std::string& name) {
  std::vector<std::string> names;
  for (const RemoteSet& set : remote_sets()) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  const std::string near = nearest(name, names);
  throw Error(ErrorCode::kBadInput, fmt::format("no public home of '{}' is known{}; known are {}", name,
                                                near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                                                fmt::join(names, ", ")));
}

bool is_installed(const RemoteSet& set) {
  if (set.installed.empty()) return false;
  return std::all_of(set.files.begin(), set.files.end(),
                     [&](const RemoteFile& file) { return fs::exists(fs::path(set.installed) / file.name); });
}

Fetched fetch(const RemoteSet& set, const FetchOptions& options) {
  std::error_code failure;
  fs::create_directories(options.folder, failure);
  if (failure)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot make folder '{}': {}", options.folder.string(), failure.message()));
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
  sync_folder(options.folder);
  return fetched;
}

}  // namespace distbelief::data
