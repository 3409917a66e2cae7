#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/data/io/input_file.h"

// CSV and its variants: rows of fields. A quoted field may contain delimiters, line ends and doubled quotes
// (RFC 4180). Line ends are LF or CRLF. The reader skips a UTF-8 byte order mark and empty lines.
namespace distbelief::data {

// Reads rows one after the other from a plain or gzip file. Memory is one row of at most 1 MiB and 65,536
// fields. Use from one thread.
class CsvReader {
 public:
  // Throws Error(kUnavailable) when the file cannot be read.
  CsvReader(const std::filesystem::path& path, char delimiter);

  // Moves to the next row; false at the end. Throws Error(kBadInput) with file and line for a row beyond the
  // limits, an unclosed quote, text after a closing quote, and a zero byte.
  bool next();

  std::size_t size() const { return ends_.size(); }  // number of fields in this row
  std::string_view operator[](std::size_t i) const;  // valid until next()
  std::uint64_t line() const { return line_; }       // the line where this row begins, from 1
  Error fault(const std::string& what) const;        // message: "'file', line 7: what"

 private:
  enum class State { kFieldStart, kPlain, kQuoted, kQuoteSeen };

  bool fill();
  bool take(char c);  // true: the row is complete
  void take_unquoted(char c);
  void append(char c);
  void end_field();
  void end_row();

  std::filesystem::path path_;
  std::unique_ptr<InputFile> file_;
  char delimiter_;
  std::vector<std::uint8_t> buffer_;
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
  State state_ = State::kFieldStart;
  std::string row_;                // the fields without quotes and delimiters
  std::vector<std::size_t> ends_;  // end of each field in row_
  bool quoted_ = false;            // the row has a quoted field, so a lone "" is not an empty line
  std::uint64_t line_ = 0;
  std::uint64_t next_line_ = 1;
};

// The fields of one comma-separated line, as in option ignore = 'id,"last, first"'. Empty text has no fields.
std::vector<std::string> split_csv_line(const std::string& text);

// Returns the most frequent of comma, tab, semicolon and bar in the first line, outside quotes; a comma when
// none occurs.
char guess_delimiter(const std::filesystem::path& path);

}  // namespace distbelief::data
