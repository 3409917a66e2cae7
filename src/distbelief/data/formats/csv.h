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

// CSV and its kin: rows of fields. A field that begins with a quote may hold delimiters, line ends and
// doubled quotes (RFC 4180). Line ends are LF or CRLF; a UTF-8 byte order mark is passed over, and so are
// empty lines.
namespace distbelief::data {

// Rows one after the other, plain or gzip. Memory is one row, which may have 1 MiB and 65,536 fields. One
// thread.
class CsvReader {
 public:
  // Throws Error(kUnavailable) when the file cannot be read.
  CsvReader(const std::filesystem::path& path, char delimiter);

  // Goes to the next row; false at the end. Throws Error(kBadInput) with file and line for rows beyond the
  // limits, quotes that are never closed or end before a field does, and bytes 0.
  bool next();

  std::size_t size() const { return ends_.size(); }  // fields of this row
  std::string_view operator[](std::size_t i) const;  // valid until next()
  std::uint64_t line() const { return line_; }       // where this row begins, from 1
  Error fault(const std::string& what) const;        // "'file', line 7: what"

 private:
  enum class State { kFieldStart, kPlain, kQuoted, kQuoteSeen };

  bool fill();
  bool take(char c);  // whether the row is complete
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
  std::vector<std::size_t> ends_;  // of each field in row_
  bool quoted_ = false;            // some field of the row was: a lone "" is no empty line
  std::uint64_t line_ = 0;
  std::uint64_t next_line_ = 1;
};

// The fields of one line of CSV with commas, as in option ignore = 'id,"last, first"'. Empty text has none.
std::vector<std::string> split_csv_line(const std::string& text);

// Of comma, tab, semicolon and bar the one that the first line has most of, outside quotes; a comma if none.
char guess_delimiter(const std::filesystem::path& path);

}  // namespace distbelief::data
