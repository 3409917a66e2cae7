#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

struct archive;
struct archive_entry;

// Reads the members of a tar with libarchive: ustar, pax, GNU and older formats.
namespace distbelief::data {

class TarReader {
 public:
  // Supplies the bytes of the tar in order.
  class Input {
   public:
    virtual ~Input() = default;
    virtual std::size_t read(std::uint8_t* into, std::size_t bytes) = 0;  // 0 at the end
    virtual std::uint64_t skip(std::uint64_t) { return 0; }  // skips at most so many bytes; returns how many
    virtual std::string at(std::uint64_t byte) const = 0;    // "FILE: byte N", for messages
  };

  explicit TarReader(Input& input);
  ~TarReader();

  // Returns the next member, valid until the next call; null after the last one. Throws Error(kBadInput) with
  // file and byte for data that is damaged or not a tar, and rethrows exceptions of the input.
  archive_entry* next();
  static std::string name_of(archive_entry* entry);  // empty when the name is missing or unreadable
  static bool is_file(archive_entry* entry);         // a regular file with its own content
  // Reads the content of the current member; 0 at its end. Throws like next().
  std::size_t read(std::uint8_t* into, std::size_t bytes);

  std::uint64_t header_offset() const;  // where the current member begins
  std::uint64_t offset() const;         // bytes read so far: the end of the header when next() returns

 private:
  struct Callbacks;
  struct Free {
    void operator()(archive* handle) const;
  };
  void check(std::int64_t result) const;

  Input* input_;
  std::vector<std::uint8_t> buffer_;
  std::exception_ptr failure_{};  // exception of the input, kept because none may pass through C frames
  std::unique_ptr<archive, Free> handle_;
};

}  // namespace distbelief::data
