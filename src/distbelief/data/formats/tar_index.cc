#include "distbelief/data/formats/tar_index.h"

#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/data/formats/tar_reader.h"
#include "distbelief/data/io/random_access_file.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kTarBlock = 512;

class IndexedTar final : public TarReader::Input {
 public:
  explicit IndexedTar(const RandomAccessFile& file) : file_(file) {}
  std::size_t read(std::uint8_t* into, std::size_t bytes) override {
    const auto count = std::size_t(std::min<std::uint64_t>(bytes, file_.size() - at_));
    file_.read(at_, into, count);
    at_ += count;
    return count;
  }
  std::uint64_t skip(std::uint64_t bytes) override {
    const std::uint64_t count = std::min(bytes, file_.size() - at_);
    at_ += count;
    return count;
  }
  std::string at(std::uint64_t byte) const override { return file_.at(byte); }

 private:
  const RandomAccessFile& file_;
  std::uint64_t at_ = 0;
};

Error tar_fault(const RandomAccessFile& file, std::uint64_t offset, const std::string& what) {
  return Error(ErrorCode::kBadInput, fmt::format("{}: {}", file.at(offset), what));
}

// Whether a name points outside the folder that it would be unpacked into.
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

TarMember member_of(const RandomAccessFile& file, const TarReader& tar, archive_entry* entry) {
  const std::uint64_t header = tar.header_offset();
  TarMember member{.name = TarReader::name_of(entry),
                   .offset = tar.offset(),
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
  IndexedTar input(file);
  TarReader tar(input);
  std::vector<TarMember> members;
  while (archive_entry* entry = tar.next())
    if (TarReader::is_file(entry)) members.push_back(member_of(file, tar, entry));
  return members;
}

}  // namespace distbelief::data
