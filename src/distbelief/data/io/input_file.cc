#include "distbelief/data/io/input_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace distbelief::data {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
constexpr std::size_t kMostInflatedAtOnce = std::size_t{1} << 30;  // fits zlib's unsigned counters
constexpr std::uint64_t kMostRatio = 100;  // plausible compression ratio; the format allows 1032
constexpr std::uint64_t kAnyRatioBytes = std::uint64_t{64} << 20;  // always allowed: harmless for tiny files
constexpr int kGzipWindowBits = 16 + MAX_WBITS;

Error unreadable(const std::filesystem::path& path, const std::string& reason) {
  return Error(ErrorCode::kUnavailable, fmt::format("cannot read '{}': {}", path.string(), reason));
}

}  // namespace

Error missing_from(const std::filesystem::path& folder, const std::string& wanted,
                   const std::string& advice) {
  std::error_code ignored;  // whatever the reason, the folder is unavailable
  const char* const state =
      std::filesystem::exists(folder, ignored) ? "lacks a file:" : "is missing, and with it";
  return Error(ErrorCode::kUnavailable,
               fmt::format("the folder '{}' {} {}; {}", folder.string(), state, wanted, advice));
}

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path_, failure)) {
    throw unreadable(path_, failure ? failure.message() : "it is not a regular file");
  }
  file_bytes_ = std::filesystem::file_size(path_, failure);
  if (failure) throw unreadable(path_, failure.message());
  file_.reset(std::fopen(path_.c_str(), "rb"));
  if (!file_) throw unreadable(path_, std::strerror(errno));
  std::uint8_t start[2] = {};
  compressed_ = read_file(start, sizeof start) == sizeof start && start[0] == 0x1f && start[1] == 0x8b;
  std::rewind(file_.get());
  if (!compressed_) return;
  buffer_.resize(kBufferBytes);
  if (inflateInit2(&stream_, kGzipWindowBits) != Z_OK) {
    throw Error(ErrorCode::kInternal, fmt::format("zlib cannot start to decompress '{}'", path_.string()));
  }
}

InputFile::~InputFile() {
  if (compressed_) inflateEnd(&stream_);
}

std::size_t InputFile::read(std::uint8_t* to, std::size_t count) {
  std::size_t done = 0;
  while (done < count) {
    const std::size_t wanted = std::min(count - done, kMostInflatedAtOnce);
    const std::size_t got = compressed_ ? inflate_some(to + done, wanted) : read_file(to + done, wanted);
    done += got;
    offset_ += got;
    if (!compressed_ && offset_ > content_limit())
      throw Error(ErrorCode::kUnavailable,
                  fmt::format("{}: the file grew while it was read; try again when nobody writes to it",
                              at(content_limit())));
    if (offset_ > content_limit())
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("{}: the {} bytes of the gzip file hold more than {} times as many; if they are "
                      "yours, decompress them with gunzip",
                      at(content_limit()), file_bytes_, kMostRatio));
    if (got < wanted) break;
  }
  return done;
}

std::uint64_t InputFile::content_limit() const {
  return compressed_ ? std::max(kAnyRatioBytes, file_bytes_ * kMostRatio) : file_bytes_;
}

std::string InputFile::at(std::uint64_t offset) const {
  return fmt::format("'{}', byte {}{}", path_.string(), offset, compressed_ ? " when decompressed" : "");
}

std::size_t InputFile::read_file(std::uint8_t* to, std::size_t count) {
  const std::size_t got = std::fread(to, 1, count, file_.get());
  if (got < count && std::ferror(file_.get()) != 0) throw unreadable(path_, std::strerror(errno));
  return got;
}

std::size_t InputFile::inflate_some(std::uint8_t* to, std::size_t count) {
  stream_.next_out = to;
  stream_.avail_out = static_cast<uInt>(count);
  while (stream_.avail_out > 0 && !ended_) {
    if (stream_.avail_in == 0) refill();
    if (stream_.avail_in == 0) throw_damaged("the file is cut short: its compressed data ends too early");
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      // gzip members may be concatenated, so any following bytes must be another member.
      if (stream_.avail_in == 0) refill();
      ended_ = stream_.avail_in == 0;
      inflateReset(&stream_);
    } else if (result == Z_MEM_ERROR) {
      throw Error(ErrorCode::kUnavailable, fmt::format("no memory to decompress '{}'", path_.string()));
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw_damaged(stream_.msg != nullptr ? stream_.msg : "the compressed data is damaged");
    }
  }
  return count - stream_.avail_out;
}

void InputFile::refill() {
  const std::size_t got = read_file(buffer_.data(), buffer_.size());
  stream_.next_in = buffer_.data();
  stream_.avail_in = static_cast<uInt>(got);
  compressed_bytes_read_ += got;
}

void InputFile::throw_damaged(const std::string& reason) const {
  throw Error(ErrorCode::kBadInput,
              fmt::format("'{}', byte {} of the gzip file: {}; fetch the file again", path_.string(),
                          compressed_bytes_read_ - stream_.avail_in, reason));
}

}  // namespace distbelief::data
