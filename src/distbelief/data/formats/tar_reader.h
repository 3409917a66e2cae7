#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

struct archive;
struct archive_entry;

// The members of a tar, by libarchive: ustar, pax, GNU and old ones.
namespace distbelief::data {

class TarReader {
 public:
  // Where its bytes come from, in order.
  class Input {
   public:
    virtual ~Input() = default;
    virtual std::size_t read(std::uint8_t* into, std::size_t bytes) = 0;  // 0: the end
    virtual std::uint64_t skip(std::uint64_t) { return 0; }               // of so many; what it passed over
    virtual std::string at(std::uint64_t byte) const = 0;                 // "FILE: byte N", for errors
  };

  explicit TarReader(Input& input);
  ~TarReader();

  // The next member, valid until the next call; null: there are no more. Throws Error(kBadInput) with file
  // and byte for what is no tar or damaged, and whatever the input throws.
  archive_entry* next();
  static std::string name_of(archive_entry* entry);  // empty: it has none that can be read
  static bool is_file(archive_entry* entry);         // with a content of its own
  // Of that member's content; 0: its end. Throws like next().
  std::size_t read(std::uint8_t* into, std::size_t bytes);

  std::uint64_t header_offset() const;  // of that member
  std::uint64_t offset() const;         // how far it has read: just behind that header when next() returns

 private:
  struct Callbacks;
  struct Free {
    void operator()(archive* handle) const;
  };
  void check(std::int64_t result) const;

  Input* input_;
  std::vector<std::uint8_t> buffer_;
  std::exception_ptr failure_{};  // of the input: no exception may pass through C
  std::unique_ptr<archive, Free> handle_;
};

}  // namespace distbelief::data
