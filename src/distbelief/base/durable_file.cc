#include "distbelief/base/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "distbelief/base/error.h"

namespace distbelief {
namespace {

// Linux writes at most this many bytes per call.
constexpr std::size_t kMaxWriteBytes = std::size_t{1} << 30;

std::filesystem::path directory_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

std::string room_text(const std::filesystem::path& directory, std::uint64_t bytes_needed) {
  std::error_code unknown;
  const auto space = std::filesystem::space(directory, unknown);
  const std::string needed = bytes_needed == 0 ? "" : fmt::format("{} bytes are needed", bytes_needed);
  if (unknown) return needed.empty() ? "" : fmt::format(" ({})", needed);
  return fmt::format(" ({}{}{} are free)", needed, needed.empty() ? "" : ", ", space.available);
}

}  // namespace

DurableFile::DurableFile(std::filesystem::path target) : DurableFile(std::move(target), Options()) {}

DurableFile::DurableFile(std::filesystem::path target, Options options)
    : target_(std::move(target)),
      options_(std::move(options)) {
  temporary_ =
      directory_of(target_) / fmt::format("{}{}-{}", kTemporaryPrefix, target_.filename().string(), getpid());
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void DurableFile::fail(int error) const {
  // Frees the space of the incomplete file, so that the message counts it as free.
  if (descriptor_ >= 0) static_cast<void>(!ftruncate(descriptor_, 0));
  throw Error(ErrorCode::kUnavailable,
              fmt::format("cannot write {}: {}{}; make room, check the permissions, or choose another folder",
                          target_.string(), std::generic_category().message(error),
                          room_text(directory_of(target_), options_.bytes_needed)));
}

void DurableFile::at(std::string_view action) const {
  if (options_.at) options_.at(fmt::format("{} {}", action, target_.filename().string()));
}

void DurableFile::write(const void* data, std::size_t bytes) {
  at("write");
  checksum_.update(data, bytes);
  bytes_written_ += bytes;
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, std::min(bytes, kMaxWriteBytes));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(written < 0 ? errno : EIO);
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

FileStamp DurableFile::commit() {
  const bool to_disk = options_.survives == Survives::kPowerCuts;
  at("sync");
  if (to_disk && fsync(descriptor_) != 0) fail(errno);
  // Network file systems may report a full disk only here; the descriptor is gone either way.
  if (close(std::exchange(descriptor_, -1)) != 0) fail(errno);
  at("rename");
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
  at("sync the name of");
  if (to_disk) sync_directory(directory_of(target_));
  return {.bytes = bytes_written_, .xxh3 = checksum_.value()};
}

FileStamp write_durably(const std::filesystem::path& target, std::string_view text, const AtPoint& at) {
  DurableFile file(target, {.bytes_needed = text.size(), .at = at});
  file.write(text.data(), text.size());
  return file.commit();
}

void write_atomically(const std::filesystem::path& target, std::span<const std::string_view> pieces) {
  std::uint64_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += piece.size();
  DurableFile file(target, {.bytes_needed = bytes, .survives = Survives::kKills});
  for (const std::string_view piece : pieces) file.write(piece.data(), piece.size());
  file.commit();
}

void sync_directory(const std::filesystem::path& directory) {
  const int descriptor = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int error = descriptor < 0 ? errno : 0;
  // EINVAL: this file system cannot sync directories, so nothing more can be done.
  if (descriptor >= 0 && fsync(descriptor) != 0 && errno != EINVAL) error = errno;
  if (descriptor >= 0) close(descriptor);
  if (error != 0) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot make the folder {} durable: {}; check the disk", directory.string(),
                            std::generic_category().message(error)));
  }
}

}  // namespace distbelief
