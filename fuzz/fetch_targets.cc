#include <fmt/format.h>

#include <string>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/io/fetch.h"
#include "distbelief/data/io/http.h"
#include "memory_file.h"
#include "tar_headers.h"
#include "targets.h"

namespace distbelief::fuzz {
namespace {

data::RemoteFile remote_file(const char* name, const std::string& content) {
  Sha256 hash;
  hash.update(content.data(), content.size());
  return {.name = name, .bytes = content.size(), .sha256 = hash.hex()};
}

}  // namespace

void unpack_tar(std::span<const std::uint8_t> input) {
  static const ScratchFolder folder;
  const std::vector<data::RemoteFile> wanted{remote_file("one.bin", "hello"), remote_file("two.bin", "two")};
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  const bool compressed = bytes.size() > 1 && bytes[0] == 0x1f && bytes[1] == 0x8b;
  if (!compressed) put_headers_right(bytes);
  const MemoryFile file(bytes);
  parse_or_refuse([&] {
    data::unpack_tar(file.path(), wanted, folder.path());
    DISTBELIEF_INVARIANT(read_text(folder.path() / "one.bin") == "hello");
    DISTBELIEF_INVARIANT(folder.entries() == wanted.size());
  });
}

// A user's own set, and the range in a server's response.
void remote_set(std::span<const std::uint8_t> input) {
  parse_or_refuse([&] {
    const data::RemoteSet set = data::parse_remote_set(text_of(input), "set.json");
    for (const data::RemoteFile& file : set.files)
      DISTBELIEF_INVARIANT(!file.name.empty() && file.name.find('/') == std::string::npos &&
                           file.sha256.size() == 64);
  });
  if (const auto range = data::parse_content_range(text_of(input)))
    DISTBELIEF_INVARIANT(range->begin < range->end);
}

}  // namespace distbelief::fuzz
