#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace distbelief::data {

// Storage of the files of a packed set: a folder on any mounted file system, or an HTTP(S) server.
// Thread-safe; calls block.
class Depot {
 public:
  virtual ~Depot() = default;
  // Reads exactly the bytes [offset, offset + to.size()) of a file. Throws Error(kUnavailable) when they are
  // unavailable (after several attempts at a server), and Error(kBadInput) with the offset when the file is
  // shorter.
  virtual void read(const std::string& file, std::uint64_t offset, std::span<std::uint8_t> to) const = 0;
  // Reads a whole file of at most `most_bytes`.
  virtual std::string read_all(const std::string& file, std::uint64_t most_bytes) const = 0;
  // The file's full name for messages.
  virtual std::string name_of(const std::string& file) const = 0;
};

// `place` is a folder, or a URL that begins with http:// or https://; `ca_file` is that of
// HttpClient::Options.
std::unique_ptr<Depot> open_depot(const std::string& place, const std::string& ca_file = {});
bool is_url(const std::string& place);

}  // namespace distbelief::data
