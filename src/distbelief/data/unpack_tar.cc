#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/data/fetch.h"
#include "distbelief/data/input_file.h"

// POSIX ustar: blocks of 512 bytes, a header before each file, numbers in octal.
namespace distbelief::data {
namespace {

constexpr std::size_t kTarBlock = 512;
using TarBlock = std::array<std::uint8_t, kTarBlock>;

struct TarEntry {
  std::string name;  // the last part of its path
  std::uint64_t bytes = 0;
  bool is_file = false;
};

Error damaged_tar(const InputFile& file, const std::string& reason) {
  return Error(ErrorCode::kBadInput, fmt::format("{}: {}; fetch it again", file.at(file.offset()), reason));
}

std::optional<std::uint64_t> octal(const std::uint8_t* from, std::size_t count) {
  std::uint64_t value = 0;
  bool any = false;
  for (std::size_t i = 0; i < count && from[i] != 0 && from[i] != ' '; ++i) {
    if (from[i] < '0' || from[i] > '7') return std::nullopt;
    value = value * 8 + std::uint64_t(from[i] - '0');
    any = true;
  }
  return any ? std::optional(value) : std::nullopt;
}

bool read_block(InputFile& file, TarBlock& block) {
  const std::size_t got = file.read(block.data(), block.size());
  if (got != 0 && got != block.size()) throw damaged_tar(file, "the archive ends within a block");
  return got == block.size();
}

std::optional<TarEntry> next_entry(InputFile& file) {
  TarBlock header{};
  if (!read_block(file, header) || header[0] == 0) return std::nullopt;
  const auto bytes = octal(header.data() + 124, 12);
  const auto sum = octal(header.data() + 148, 8);
  std::uint64_t counted = 0;
  for (std::size_t i = 0; i < header.size(); ++i) counted += i >= 148 && i < 156 ? ' ' : header[i];
  if (!bytes || !sum || counted != *sum) throw damaged_tar(file, "this is no header of a tar archive");
  const std::string path(reinterpret_cast<const char*>(header.data()),
                         strnlen(reinterpret_cast<const char*>(header.data()), 100));
  const std::size_t slash = path.rfind('/');
  return TarEntry{slash == std::string::npos ? path : path.substr(slash + 1), *bytes,
                  header[156] == '0' || header[156] == 0};
}

// Passes an entry's blocks to `take`, at most `bytes` of them.
template <typename Take>
void read_entry(InputFile& file, std::uint64_t bytes, const Take& take) {
  TarBlock block{};
  while (bytes > 0) {
    if (!read_block(file, block)) throw damaged_tar(file, "the archive ends within a file");
    const std::uint64_t own = std::min<std::uint64_t>(bytes, block.size());
    take(block.data(), own);
    bytes -= own;
  }
}

void extract(InputFile& file, const TarEntry& entry, const RemoteFile& wanted,
             const std::filesystem::path& folder) {
  if (entry.bytes != wanted.bytes)
    throw damaged_tar(
        file, fmt::format("{} should have {} bytes, it has {}", entry.name, wanted.bytes, entry.bytes));
  DurableFile out(folder / wanted.name, {.bytes_needed = wanted.bytes});
  Sha256 hash;
  read_entry(file, entry.bytes, [&](const std::uint8_t* data, std::uint64_t bytes) {
    out.write(data, bytes);
    hash.update(data, bytes);
  });
  if (hash.hex() != wanted.sha256)
    throw damaged_tar(
        file, fmt::format("{} has SHA-256 {}, it should be {}", entry.name, hash.hex(), wanted.sha256));
  out.commit();
}

}  // namespace

void unpack_tar(const std::filesystem::path& archive, const std::vector<RemoteFile>& wanted,
                const std::filesystem::path& folder) {
  InputFile file(archive);
  std::set<std::string> found;
  while (const std::optional<TarEntry> entry = next_entry(file)) {
    const auto match = std::find_if(wanted.begin(), wanted.end(),
                                    [&](const RemoteFile& one) { return one.name == entry->name; });
    if (match == wanted.end() || !entry->is_file) {
      read_entry(file, entry->is_file ? entry->bytes : 0, [](const std::uint8_t*, std::uint64_t) {});
      continue;
    }
    extract(file, *entry, *match, folder);
    found.insert(entry->name);
  }
  if (found.size() < wanted.size())
    throw damaged_tar(file, fmt::format("the archive has {} of the {} files that it should have",
                                        found.size(), wanted.size()));
}

}  // namespace distbelief::data
