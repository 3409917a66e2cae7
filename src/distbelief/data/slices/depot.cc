#include "distbelief/data/slices/depot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "distbelief/base/error.h"
#include "distbelief/data/io/http.h"

namespace distbelief::data {
namespace {

class OpenFile {
 public:
  explicit OpenFile(std::string path)
      : path_(std::move(path)),
        descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0)
      throw Error(ErrorCode::kUnavailable, fmt::format("cannot read '{}': {}", path_, std::strerror(errno)));
  }
  ~OpenFile() { close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  std::uint64_t size() const {
    struct stat found {};
    if (fstat(descriptor_, &found) != 0) fail();
    return static_cast<std::uint64_t>(found.st_size);
  }

  void read(std::uint64_t offset, std::span<std::uint8_t> to) const {
    for (std::size_t done = 0; done < to.size();) {
      const ssize_t got =
          pread(descriptor_, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno != EINTR) fail();
      if (got == 0)
        throw Error(ErrorCode::kBadInput,
                    fmt::format("'{}', byte {}: the file ends here, {} more bytes were wanted; fetch or pack "
                                "the set again",
                                path_, offset + done, to.size() - done));
      if (got > 0) done += static_cast<std::size_t>(got);
    }
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::kUnavailable, fmt::format("cannot read '{}': {}", path_, std::strerror(errno)));
  }

  std::string path_;
  int descriptor_;
};

class FolderDepot final : public Depot {
 public:
  explicit FolderDepot(std::string folder) : folder_(std::move(folder)) {}

  void read(const std::string& file, std::uint64_t offset, std::span<std::uint8_t> to) const override {
    OpenFile(name_of(file)).read(offset, to);
  }

  std::string read_all(const std::string& file, std::uint64_t most_bytes) const override {
    const OpenFile opened(name_of(file));
    const std::uint64_t bytes = opened.size();
    if (bytes > most_bytes)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("'{}' has {} bytes, more than {}", name_of(file), bytes, most_bytes));
    std::string text(bytes, '\0');
    opened.read(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
    return text;
  }

  std::string name_of(const std::string& file) const override {
    return (std::filesystem::path(folder_) / file).string();
  }

 private:
  std::string folder_;
};

class HttpDepot final : public Depot {
 public:
  HttpDepot(std::string url, const std::string& ca_file)
      : url_(std::move(url)),
        client_({.ca_file = ca_file}) {
    while (url_.ends_with('/')) url_.pop_back();
  }

  void read(const std::string& file, std::uint64_t offset, std::span<std::uint8_t> to) const override {
    client_.read(name_of(file), offset, to);
  }
  std::string read_all(const std::string& file, std::uint64_t most_bytes) const override {
    return client_.read_all(name_of(file), most_bytes);
  }
  std::string name_of(const std::string& file) const override { return url_ + "/" + file; }

 private:
  std::string url_;
  HttpClient client_;
};

}  // namespace

bool is_url(const std::string& place) {
  return place.starts_with("http://") || place.starts_with("https://");
}

std::unique_ptr<Depot> open_depot(const std::string& place, const std::string& ca_file) {
  if (is_url(place)) return std::make_unique<HttpDepot>(place, ca_file);
  return std::make_unique<FolderDepot>(place);
}

}  // namespace distbelief::data
