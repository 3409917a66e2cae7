#include "distbelief/data/formats/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

constexpr std::size_t kTarReadBytes = std::size_t{64} << 10;

}  // namespace

struct TarReader::Callbacks {
  static la_ssize_t read(archive*, void* data, const void** buffer) {
    auto* reader = static_cast<TarReader*>(data);
    *buffer = reader->buffer_.data();
    try {
      return static_cast<la_ssize_t>(reader->input_->read(reader->buffer_.data(), reader->buffer_.size()));
    } catch (...) {
      reader->failure_ = std::current_exception();
      return ARCHIVE_FATAL;
    }
  }

  static la_int64_t skip(archive*, void* data, la_int64_t count) {
    auto* reader = static_cast<TarReader*>(data);
    try {
      return static_cast<la_int64_t>(reader->input_->skip(static_cast<std::uint64_t>(count)));
    } catch (...) {
      reader->failure_ = std::current_exception();
      return ARCHIVE_FATAL;
    }
  }
};

void TarReader::Free::operator()(archive* handle) const { archive_read_free(handle); }

TarReader::TarReader(Input& input) : input_(&input), buffer_(kTarReadBytes), handle_(archive_read_new()) {
  if (handle_ == nullptr) throw std::bad_alloc();
  archive_read_support_format_tar(handle_.get());
  archive_read_set_read_callback(handle_.get(), Callbacks::read);
  archive_read_set_skip_callback(handle_.get(), Callbacks::skip);
  archive_read_set_callback_data(handle_.get(), this);
  check(archive_read_open1(handle_.get()));
}

TarReader::~TarReader() = default;

void TarReader::check(std::int64_t result) const {
  if (failure_) std::rethrow_exception(failure_);
  if (result >= ARCHIVE_OK) return;
  const char* reason = archive_error_string(handle_.get());
  throw Error(ErrorCode::kBadInput, fmt::format("{}: damaged tar: {}", input_->at(offset()),
                                                reason == nullptr ? "unknown" : reason));
}

archive_entry* TarReader::next() {
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(handle_.get(), &entry);
  // libarchive warns about names outside the process's character set and about odd times; the member is
  // intact.
  if (result != ARCHIVE_WARN) check(result);
  return result == ARCHIVE_EOF ? nullptr : entry;
}

std::string TarReader::name_of(archive_entry* entry) {
  const char* name = archive_entry_pathname(entry);
  if (name == nullptr) name = archive_entry_pathname_utf8(entry);  // pax stores UTF-8
  return name == nullptr ? "" : name;
}

bool TarReader::is_file(archive_entry* entry) {
  return archive_entry_filetype(entry) == AE_IFREG && archive_entry_hardlink(entry) == nullptr &&
         archive_entry_hardlink_utf8(entry) == nullptr;
}

std::size_t TarReader::read(std::uint8_t* into, std::size_t bytes) {
  const la_ssize_t count = archive_read_data(handle_.get(), into, bytes);
  check(count);
  return static_cast<std::size_t>(count);
}

std::uint64_t TarReader::header_offset() const {
  return static_cast<std::uint64_t>(archive_read_header_position(handle_.get()));
}

std::uint64_t TarReader::offset() const {
  return static_cast<std::uint64_t>(std::max<la_int64_t>(0, archive_filter_bytes(handle_.get(), 0)));
}

}  // namespace distbelief::data
