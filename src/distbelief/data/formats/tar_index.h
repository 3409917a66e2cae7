#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// What a tar file holds, by libarchive: ustar, pax, GNU and old ones.
namespace distbelief::data {

struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  // of its bytes in the tar file
  std::uint64_t size = 0;
};

// The regular files of an uncompressed tar, in order; read by offset later, never unpacked. Throws
// Error(kUnavailable) when the file cannot be read, Error(kBadInput) with file and byte when it is no tar, is
// damaged or cut short, is compressed or sparse, or a name is absolute or has "..".
std::vector<TarMember> index_tar(const std::filesystem::path& path);

}  // namespace distbelief::data
