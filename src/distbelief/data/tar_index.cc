#include "distbelief/data/tar_index.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <memory>

#include "distbelief/base/error.h"
#include "distbelief/data/random_access_file.h"

namespace distbelief::data {
namespace {

constexpr std::size_t kTarBlock = 512;
constexpr std::size_t kTarReadBytes = std::size_t{64} << 10;

struct FreeArchive {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

// What libarchive reads from: pieces of the file, which it may skip through.
struct TarInput {
  const RandomAccessFile& file;
  std::uint64_t at = 0;
  std::vector<std::uint8_t> buffer = std::vector<std::uint8_t>(kTarReadBytes);
  std::string failure{};  // of reading the file itself: no exception may pass through C
};

la_ssize_t read_piece(archive*, void* data, const void** buffer) {
  auto* input = static_cast<TarInput*>(data);
  const std::uint64_t count = std::min<std::uint64_t>(kTarReadBytes, input->file.size() - input->at);
  try {
    input->file.read(input->at, input->buffer.data(), count);
  } catch (const Error& error) {
    input->failure = error.message();
    return ARCHIVE_FATAL;
  }
  input->at += count;
  *buffer = input->buffer.data();
  return static_cast<la_ssize_t>(count);
}

la_int64_t skip_pieces(archive*, void* data, la_int64_t count) {
  auto* input = static_cast<TarInput*>(data);
  const auto left = static_cast<la_int64_t>(input->file.size() - input->at);
  const la_int64_t skipped = std::min(count, left);
  input->at += static_cast<std::uint64_t>(skipped);
  return skipped;
}

Archive open_tar(TarInput& input) {
  Archive handle(archive_read_new());
  if (handle == nullptr) throw std::bad_alloc();
  archive_read_support_format_tar(handle.get());
  archive_read_set_read_callback(handle.get(), read_piece);
  archive_read_set_skip_callback(handle.get(), skip_pieces);
  archive_read_set_callback_data(handle.get(), &input);
  return handle;
}

Error tar_fault(const RandomAccessFile& file, std::uint64_t offset, const std::string& what) {
  return Error(ErrorCode::kBadInput, fmt::format("{}: {}", file.at(offset), what));
}

// A name leaves the folder it would be unpacked to.
bool escapes(const std::string& name) {
  if (name.starts_with('/')) return true;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    if (name.compare(at, end - at, "..") == 0) return true;
    at = end + 1;
  }
  return false;
}

void refuse_compressed(const RandomAccessFile& file) {
  std::uint8_t start[6] = {};
  file.read(0, start, std::min<std::uint64_t>(sizeof start, file.size()));
  const bool gzip = start[0] == 0x1F && start[1] == 0x8B, zstd = start[0] == 0x28 && start[1] == 0xB5;
  const bool xz = start[0] == 0xFD && start[1] == '7',
             bzip2 = start[0] == 'B' && start[1] == 'Z' && start[2] == 'h';
  if (gzip || zstd || xz || bzip2)
    throw tar_fault(file, 0,
                    "the tar file is compressed, so samples cannot be read in any order; decompress it");
}

TarMember member_of(const RandomAccessFile& file, archive* handle, archive_entry* entry) {
  const auto header = static_cast<std::uint64_t>(archive_read_header_position(handle));
  const char* name = archive_entry_pathname(entry);
  TarMember member{.name = name == nullptr ? "" : name,
                   .offset = static_cast<std::uint64_t>(archive_filter_bytes(handle, 0)),
                   .size = static_cast<std::uint64_t>(archive_entry_size(entry))};
  if (member.name.empty()) throw tar_fault(file, header, "a file has no name that can be read");
  if (escapes(member.name))
    throw tar_fault(file, header,
                    fmt::format("name '{}' is absolute or has '..'; such a tar is not to be trusted",
                                member.name.substr(0, 100)));
  if (archive_entry_sparse_count(entry) > 0)
    throw tar_fault(file, header, fmt::format("'{}' is sparse, which is not read here", member.name));
  if (member.offset > file.size() || member.size > file.size() - member.offset)
    throw tar_fault(file, header,
                    fmt::format("'{}' says it has {} bytes, but the tar ends before; fetch it again",
                                member.name.substr(0, 100), member.size));
  return member;
}

}  // namespace

std::vector<TarMember> index_tar(const std::filesystem::path& path) {
  const RandomAccessFile file(path);
  if (file.size() < kTarBlock) throw tar_fault(file, file.size(), "a tar file has at least 512 bytes");
  refuse_compressed(file);
  TarInput input{.file = file};
  const Archive handle = open_tar(input);
  const auto check = [&](int result) {
    if (!input.failure.empty()) throw Error(ErrorCode::kUnavailable, input.failure);
    if (result == ARCHIVE_OK || result == ARCHIVE_EOF) return;
    const char* reason = archive_error_string(handle.get());
    throw tar_fault(file, static_cast<std::uint64_t>(archive_read_header_position(handle.get())),
                    fmt::format("damaged tar: {}", reason == nullptr ? "unknown" : reason));
  };
  check(archive_read_open1(handle.get()));
  std::vector<TarMember> members;
  for (;;) {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(handle.get(), &entry);
    check(result);
    if (result == ARCHIVE_EOF) return members;
    if (archive_entry_filetype(entry) == AE_IFREG && archive_entry_hardlink(entry) == nullptr)
      members.push_back(member_of(file, handle.get(), entry));
  }
}

}  // namespace distbelief::data
