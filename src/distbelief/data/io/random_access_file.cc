#include "distbelief/data/io/random_access_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

Error cannot_read(const std::filesystem::path& path, const std::string& reason) {
  return Error(ErrorCode::kUnavailable, fmt::format("cannot read '{}': {}", path.string(), reason));
}

}  // namespace

RandomAccessFile::RandomAccessFile(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe must not block
  if (descriptor_ < 0) throw cannot_read(path_, std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const std::string reason = known ? "it is not a regular file" : std::strerror(errno);
    ::close(descriptor_);
    throw cannot_read(path_, reason);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

RandomAccessFile::~RandomAccessFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

RandomAccessFile::RandomAccessFile(RandomAccessFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

std::string RandomAccessFile::at(std::uint64_t offset) const {
  return fmt::format("'{}', byte {}", path_.string(), offset);
}

void RandomAccessFile::read(std::uint64_t offset, void* to, std::size_t count) const {
  auto* bytes = static_cast<std::uint8_t*>(to);
  while (count > 0) {
    const ssize_t got = ::pread(descriptor_, bytes, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw cannot_read(path_, std::strerror(errno));
    if (got == 0)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{}: the file ends here, {} more bytes are wanted; it is cut short or was "
                              "changed, fetch it again",
                              at(offset), count));
    bytes += got;
    offset += static_cast<std::uint64_t>(got);
    count -= static_cast<std::size_t>(got);
  }
}

void read_whole(const std::filesystem::path& path, std::uint64_t limit, std::vector<std::uint8_t>& to) {
  const RandomAccessFile file(path);
  if (file.size() > limit)
    throw Error(ErrorCode::kBadInput,
                fmt::format("'{}' has {} bytes, at most {} are taken", path.string(), file.size(), limit));
  to.resize(file.size());
  file.read(0, to.data(), to.size());
}

}  // namespace distbelief::data
