#include "distbelief/base/text_lines.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace distbelief {

TextLines::TextLines(std::filesystem::path path) : TextLines(std::move(path), Limits()) {}

TextLines::TextLines(std::filesystem::path path, const Limits& limits)
    : path_(std::move(path)),
      limits_(limits),
      file_(path_, std::ios::binary) {}

bool TextLines::fill() {
  constexpr std::size_t kChunk = 64 << 10;
  buffer_.resize(kChunk);
  file_.read(buffer_.data(), std::streamsize(buffer_.size()));
  filled_ = std::size_t(file_.gcount());
  at_ = 0;
  return filled_ > 0;
}

bool TextLines::next() {
  if (is_cut_) return false;
  line_.clear();
  ++number_;
  while (at_ < filled_ || fill()) {
    const std::string_view left = std::string_view(buffer_).substr(at_, filled_ - at_);
    const std::size_t end = left.find('\n');
    const bool ends = end != std::string_view::npos;
    const std::string_view more = left.substr(0, end);
    if (more.size() > limits_.line_bytes - line_.size())
      throw fault(fmt::format("it has more than {} bytes, which are all that is taken", limits_.line_bytes));
    line_ += more;
    at_ += more.size() + (ends ? 1 : 0);
    taken_ += more.size() + (ends ? 1 : 0);
    if (taken_ > limits_.file_bytes)
      throw fault(
          fmt::format("the file has more than {} bytes, which are all that is taken", limits_.file_bytes));
    if (ends) return true;
  }
  is_cut_ = true;
  return !line_.empty();
}

Error TextLines::fault(const std::string& what) const {
  return Error(ErrorCode::kBadInput, fmt::format("{}, line {}: {}", path_.string(), number_, what));
}

}  // namespace distbelief
