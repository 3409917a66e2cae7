#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// The members of a tar file, read with libarchive: ustar, pax, GNU and older formats.
namespace distbelief::data {

struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  // byte offset of the content in the tar file
  std::uint64_t size = 0;
};

// Lists the regular files of an uncompressed tar in order. Callers read them later by offset; nothing is
// unpacked. Throws Error(kUnavailable) when the file cannot be read, and Error(kBadInput) with file and byte
// when it is not a tar, is damaged, cut short, compressed or sparse, or has a member whose name is absolute
// or contains "..".
std::vector<TarMember> index_tar(const std::filesystem::path& path);

}  // namespace distbelief::data
