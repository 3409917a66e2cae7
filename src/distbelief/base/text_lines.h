#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "distbelief/base/error.h"

namespace distbelief {

// Reads a text file line by line and holds one line in memory at a time. One thread; blocks on the disk.
class TextLines {
 public:
  struct Limits {
    std::size_t line_bytes = 1 << 20;
    std::uint64_t file_bytes = std::numeric_limits<std::uint64_t>::max();
  };
  explicit TextLines(std::filesystem::path path);
  TextLines(std::filesystem::path path, const Limits& limits);

  bool is_open() const { return file_.is_open(); }  // false: the file cannot be read and has no lines
  // Advances to the next line; false at the end. Throws Error(kBadInput) with file and line beyond the
  // limits.
  bool next();
  const std::string& line() const { return line_; }  // without its newline
  std::int64_t number() const { return number_; }    // from 1
  bool is_cut() const { return is_cut_; }            // the line ends with the file, without a newline
  Error fault(const std::string& what) const;        // "file, line 7: what"

 private:
  bool fill();

  std::filesystem::path path_;
  Limits limits_;
  std::ifstream file_;
  std::string buffer_;
  std::size_t at_ = 0;      // next byte in buffer_
  std::size_t filled_ = 0;  // bytes in buffer_
  std::string line_;
  std::int64_t number_ = 0;
  std::uint64_t taken_ = 0;  // bytes read from the file
  bool is_cut_ = false;
};

}  // namespace distbelief
