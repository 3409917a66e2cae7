#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace distbelief::data {

// Where the files of a packed set lie: a folder of any mounted file system, or behind HTTP(S). Safe to use
// from any number of threads; calls block.
class Depot {
 public:
  virtual ~Depot() = default;
  // Exactly the bytes [offset, offset + to.size()) of a file. Throws Error(kUnavailable) when they cannot be
  // had (a server is asked several times first), Error(kBadInput) with the offset when the file is shorter.
  virtual void read(const std::string& file, std::uint64_t offset, std::span<std::uint8_t> to) const = 0;
  // A whole file of at most `most_bytes`.
  virtual std::string read_all(const std::string& file, std::uint64_t most_bytes) const = 0;
  // For messages.
  virtual std::string name_of(const std::string& file) const = 0;
};

// `place`: a folder, or a URL that begins with http:// or https://; `ca_file`: HttpClient::Options has it.
std::unique_ptr<Depot> open_depot(const std::string& place, const std::string& ca_file = {});
bool is_url(const std::string& place);

}  // namespace distbelief::data
