#include "distbelief/data/io/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

constexpr std::chrono::milliseconds kLockPause{50};

int open_lockable(const std::filesystem::path& path) {
  std::error_code ignored;
  const int flags = std::filesystem::is_directory(path, ignored) ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT;
  return open(path.c_str(), flags | O_CLOEXEC, 0666);
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, const Options& options)
    : descriptor_(open_lockable(path)) {
  const auto fail = [&] {
    const std::string reason = std::strerror(errno);
    if (descriptor_ >= 0) close(descriptor_);
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot lock '{}': {}; {}", path.string(), reason, options.advice));
  };
  if (descriptor_ < 0) fail();
  const auto deadline = std::chrono::steady_clock::now() + options.deadline;
  bool told = false;
  while (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail();
    if (!told) spdlog::info("{}; waiting for it", options.waiting);
    told = true;
    if (std::chrono::steady_clock::now() > deadline) {
      close(descriptor_);
      throw Error(ErrorCode::kTimeout, fmt::format("another process holds '{}' for {} hours; end it",
                                                   path.string(), options.deadline.count()));
    }
    std::this_thread::sleep_for(kLockPause);
  }
}

FileLock::~FileLock() { close(descriptor_); }

}  // namespace distbelief::data
