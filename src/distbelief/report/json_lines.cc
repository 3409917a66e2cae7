#include "distbelief/report/json_lines.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "distbelief/base/json_text.h"

namespace distbelief::report {
namespace {

constexpr std::size_t kChunk = 1 << 16;
constexpr std::size_t kLongestLine = 1 << 20;

}  // namespace

void JsonLines::read_new(const std::function<void(const nlohmann::json&)>& take) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path_, error);
  if (error) return;
  if (size < offset_) offset_ = size;  // a writer cut off a torn line
  std::ifstream file(path_, std::ios::binary);
  file.seekg(std::streamoff(offset_));
  std::string text;
  std::string chunk(kChunk, '\0');
  while (file) {
    file.read(chunk.data(), std::streamsize(chunk.size()));
    text.append(chunk, 0, std::size_t(file.gcount()));
    take_lines(text, take);
  }
}

void JsonLines::take_lines(std::string& text, const std::function<void(const nlohmann::json&)>& take) {
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const bool whole = !skipping_;
    skipping_ = false;
    if (!whole) continue;
    const nlohmann::json line = json_or_discarded(std::string_view(text).substr(begin, end - begin));
    if (line.is_object()) take(line);
  }
  if (text.size() - begin > kLongestLine) {
    skipping_ = true;
    begin = text.size();
  }
  offset_ += begin;
  text.erase(0, begin);
}

}  // namespace distbelief::report
