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

// What to throw where a set's folder lacks a file, or is not there itself.
Error missing_from(const std::filesystem::path& folder, const std::string& wanted, const std::string& advice);

// The content of a file from first byte to last. A gzip file is known by its first bytes, whatever its
// name, and decompressed on the way; its checksums are verified. One that turns out much larger than such
// files ever do is refused there: who reads it holds all of it. Memory is one fixed buffer. One thread.
class InputFile {
 public:
  // Throws Error(kUnavailable) when the file cannot be read.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Up to `count` bytes; fewer only at the end. Throws Error(kBadInput) for damaged compression, and for
  // content beyond content_limit().
  std::size_t read(std::uint8_t* to, std::size_t count);

  std::uint64_t offset() const { return offset_; }  // in the content, of the next byte
  // No content of this file may be longer: its size, or what so many compressed bytes are believed to hold.
  std::uint64_t content_limit() const;
  std::uint64_t stored_bytes() const { return file_bytes_; }  // of the file itself, compressed or not
  std::string at(std::uint64_t offset) const;                 // "'file', byte 16": how messages name a place

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
  bool ended_ = false;  // the last gzip member and the file ended together
  std::uint64_t compressed_bytes_read_ = 0;
  std::vector<std::uint8_t> buffer_;  // compressed bytes on their way to stream_
  z_stream stream_{};
};

}  // namespace distbelief::data
