#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/data/formats/tar_reader.h"
#include "distbelief/data/io/fetch.h"
#include "distbelief/data/io/input_file.h"

namespace distbelief::data {
namespace {

class FetchedTar final : public TarReader::Input {
 public:
  explicit FetchedTar(const std::filesystem::path& path) : file_(path) {}
  std::size_t read(std::uint8_t* into, std::size_t bytes) override { return file_.read(into, bytes); }
  std::string at(std::uint64_t byte) const override { return file_.at(byte); }
  std::uint64_t offset() const { return file_.offset(); }

 private:
  InputFile file_;
};

Error wrong_tar(const FetchedTar& input, std::uint64_t byte, const std::string& reason) {
  return Error(ErrorCode::kBadInput, fmt::format("{}: {}; fetch it again", input.at(byte), reason));
}

std::string last_name(archive_entry* entry) {
  const std::string name = TarReader::name_of(entry);
  return name.substr(name.rfind('/') + 1);
}

void extract(const FetchedTar& input, TarReader& tar, std::int64_t bytes, const RemoteFile& wanted,
             const std::filesystem::path& folder) {
  const std::uint64_t header = tar.header_offset();
  if (bytes < 0 || std::uint64_t(bytes) != wanted.bytes)
    throw wrong_tar(input, header,
                    fmt::format("{} should have {} bytes, it has {}", wanted.name, wanted.bytes, bytes));
  DurableFile out(folder / wanted.name, {.bytes_needed = wanted.bytes});
  Sha256 hash;
  std::array<std::uint8_t, 4096> piece;
  while (const std::size_t count = tar.read(piece.data(), piece.size())) {
    out.write(piece.data(), count);
    hash.update(piece.data(), count);
  }
  const std::string found = hash.hex();
  if (found != wanted.sha256)
    throw wrong_tar(input, header,
                    fmt::format("{} has SHA-256 {}, it should be {}", wanted.name, found, wanted.sha256));
  out.commit();
}

}  // namespace

void unpack_tar(const std::filesystem::path& archive, const std::vector<RemoteFile>& wanted,
                const std::filesystem::path& folder) {
  FetchedTar input(archive);
  TarReader tar(input);
  std::set<std::string> found;
  while (archive_entry* entry = tar.next()) {
    const std::string name = last_name(entry);
    const auto match =
        std::find_if(wanted.begin(), wanted.end(), [&](const RemoteFile& one) { return one.name == name; });
    if (match == wanted.end() || archive_entry_filetype(entry) != AE_IFREG) continue;
    extract(input, tar, archive_entry_size(entry), *match, folder);
    found.insert(name);
  }
  if (found.size() < wanted.size())
    throw wrong_tar(
        input, input.offset(),
        fmt::format("the archive has {} of the {} files that it should have", found.size(), wanted.size()));
}

}  // namespace distbelief::data
