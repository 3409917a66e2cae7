#include "distbelief/data/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "distbelief/base/error.h"

namespace distbelief::data {

std::filesystem::path WholeFile::temporary_name(const std::filesystem::path& target) {
  return target.parent_path() / (".tmp-" + target.filename().string());
}

WholeFile::WholeFile(std::filesystem::path target)
    : target_(std::move(target)),
      temporary_(temporary_name(target_)) {
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("make");
}

WholeFile::~WholeFile() {
  if (descriptor_ >= 0) close(descriptor_);
  std::error_code ignored;  // after a commit it is gone already
  std::filesystem::remove(temporary_, ignored);
}

void WholeFile::write(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t written = ::write(descriptor_, from + done, bytes - done);
    if (written < 0 && errno != EINTR) fail("write");
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  bytes_ += bytes;
}

void WholeFile::commit() {
  if (fsync(descriptor_) != 0) fail("write");
  const int result = close(descriptor_);
  descriptor_ = -1;
  if (result != 0) fail("write");
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail("rename");
}

void WholeFile::fail(const char* action) const {
  throw Error(ErrorCode::kUnavailable,
              fmt::format("cannot {} '{}' after {} bytes: {}; is there room, and may it be written?", action,
                          target_.string(), bytes_, std::strerror(errno)));
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int result = descriptor < 0 ? -1 : fsync(descriptor);
  const int reason = errno;
  if (descriptor >= 0) close(descriptor);
  if (result != 0)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot sync folder '{}': {}", folder.string(), std::strerror(reason)));
}

}  // namespace distbelief::data
