#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/error.h"

namespace distbelief::data {

// The error for a file missing from the folder of a data set, or for a missing folder.
Error missing_from(const std::filesystem::path& folder, const std::string& wanted, const std::string& advice);

// Reads the content of a file from the first byte to the last. A gzip file is recognised by its first bytes,
// whatever its name, and is decompressed; its checksums are verified. Content far beyond a plausible
// compression ratio is refused, because callers hold all of it. Memory is one fixed buffer. Use from one
// thread.
class InputFile {
 public:
  // Throws Error(kUnavailable) when the file cannot be read.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Reads up to `count` bytes; fewer only at the end. Throws Error(kBadInput) for damaged compression and for
  // content beyond content_limit().
  std::size_t read(std::uint8_t* to, std::size_t count);

  std::uint64_t offset() const { return offset_; }  // content offset of the next byte
  // Upper bound of the content: the file's size, or the largest content that is plausible for its compressed
  // size.
  std::uint64_t content_limit() const;
  std::uint64_t stored_bytes() const { return file_bytes_; }  // size of the file itself, compressed or not
  std::string at(std::uint64_t offset) const;  // a place as messages name it: "'file', byte 16"

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::size_t read_file(std::uint8_t* to, std::size_t count);
  std::size_t inflate_some(std::uint8_t* to, std::size_t count);
  void refill();
  [[noreturn]] void throw_damaged(const std::string& reason) const;

  std::filesystem::path path_;
  std::uint64_t file_bytes_ = 0;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::uint64_t offset_ = 0;
  bool compressed_ = false;
  bool ended_ = false;  // the last gzip member ended at the end of the file
  std::uint64_t compressed_bytes_read_ = 0;
  std::vector<std::uint8_t> buffer_;  // compressed input of stream_
  z_stream stream_{};
};

}  // namespace distbelief::data
