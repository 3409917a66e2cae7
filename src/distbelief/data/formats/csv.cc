#include "distbelief/data/formats/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace distbelief::data {
namespace {

constexpr std::size_t kCsvBufferBytes = std::size_t{64} << 10;
constexpr std::size_t kMostRowBytes = std::size_t{1} << 20;
constexpr std::size_t kMostFields = 65'536;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

CsvReader::CsvReader(const std::filesystem::path& path, char delimiter)
    : path_(path),
      file_(std::make_unique<InputFile>(path)),
      delimiter_(delimiter),
      buffer_(kCsvBufferBytes) {
  fill();
  const std::string_view start(reinterpret_cast<const char*>(buffer_.data()), filled_);
  if (start.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

bool CsvReader::fill() {
  filled_ = file_->read(buffer_.data(), buffer_.size());
  at_ = 0;
  return filled_ > 0;
}

bool CsvReader::next() {
  row_.clear();
  ends_.clear();
  state_ = State::kFieldStart;
  quoted_ = false;
  line_ = next_line_;
  while (at_ < filled_ || fill()) {
    if (take(static_cast<char>(buffer_[at_++]))) return true;
  }
  if (state_ == State::kQuoted) throw fault("a quote opens in this row and is never closed");
  if (row_.empty() && ends_.empty() && !quoted_) return false;
  end_row();
  return true;
}

bool CsvReader::take(char c) {
  if (c == '\0') throw fault("the row has a byte 0; is this a text file?");
  if (c == '\n') ++next_line_;
  if (state_ == State::kQuoted) {
    if (c == '"')
      state_ = State::kQuoteSeen;
    else
      append(c);
    return false;
  }
  if (c == '\n') {
    const bool empty = ends_.empty() && !quoted_ && (row_.empty() || row_ == "\r");
    if (!empty) {
      end_row();
      return true;
    }
    row_.clear();
    state_ = State::kFieldStart;
    line_ = next_line_;
    return false;
  }
  take_unquoted(c);
  return false;
}

void CsvReader::take_unquoted(char c) {
  if (c == delimiter_) {
    end_field();
    state_ = State::kFieldStart;
  } else if (c == '"' && state_ == State::kFieldStart) {
    state_ = State::kQuoted;
    quoted_ = true;
  } else if (c == '"' && state_ == State::kQuoteSeen) {
    append('"');
    state_ = State::kQuoted;
  } else if (state_ == State::kQuoteSeen) {
    if (c != '\r') throw fault(fmt::format("field {} goes on after its closing quote", ends_.size() + 1));
  } else {
    append(c);
    state_ = State::kPlain;
  }
}

void CsvReader::append(char c) {
  if (row_.size() == kMostRowBytes)
    throw fault(fmt::format("the row is longer than {} bytes; is a quote never closed?", kMostRowBytes));
  row_ += c;
}

void CsvReader::end_field() {
  if (ends_.size() == kMostFields) throw fault(fmt::format("the row has more than {} fields", kMostFields));
  ends_.push_back(row_.size());
}

void CsvReader::end_row() {
  if (state_ == State::kPlain && row_.ends_with('\r')) row_.pop_back();
  end_field();
}

std::string_view CsvReader::operator[](std::size_t i) const {
  const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(row_).substr(begin, ends_[i] - begin);
}

Error CsvReader::fault(const std::string& what) const {
  return Error(ErrorCode::kBadInput, fmt::format("'{}', line {}: {}", path_.string(), line_, what));
}

std::vector<std::string> split_csv_line(const std::string& text) {
  std::vector<std::string> fields;
  if (text.empty()) return fields;
  fields.emplace_back();
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool doubled = quoted && text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"';
    if (doubled)
      fields.back() += text[++i];
    else if (text[i] == '"')
      quoted = !quoted;
    else if (text[i] == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += text[i];
  }
  return fields;
}

char guess_delimiter(const std::filesystem::path& path) {
  InputFile file(path);
  std::vector<std::uint8_t> start(kCsvBufferBytes);
  start.resize(file.read(start.data(), start.size()));
  static constexpr std::string_view kCandidates = ",\t;|";
  std::array<std::size_t, kCandidates.size()> counts{};
  bool quoted = false;
  std::size_t decimals = 0;  // commas between digits
  for (std::size_t i = 0; i < start.size(); ++i) {
    const std::uint8_t byte = start[i];
    if (byte == '"') quoted = !quoted;
    if (quoted) continue;
    if (byte == '\n') break;
    if (const auto which = kCandidates.find(static_cast<char>(byte)); which != std::string_view::npos)
      ++counts[which];
    if (byte == ',' && i > 0 && i + 1 < start.size() && std::isdigit(start[i - 1]) != 0 &&
        std::isdigit(start[i + 1]) != 0)
      ++decimals;
  }
  if (counts[kCandidates.find(';')] > 0 && decimals == counts[0]) counts[0] = 0;  // 1,5;2,7 is two fields
  return kCandidates[static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) -
                                              counts.begin())];
}

}  // namespace distbelief::data
