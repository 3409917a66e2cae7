#include "distbelief/cli/data_drawing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace distbelief::cli {
namespace {

constexpr int kBarWidth = 40;
constexpr std::size_t kMostRows = 40;
constexpr std::array<const char*, 9> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
constexpr std::array<const char*, 9> kHeights = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr auto kBetweenLines = std::chrono::milliseconds(200);
constexpr auto kBetweenPlainLines = std::chrono::seconds(10);  // for a log, where lines stay

// A printable, shortened class name: names in the data may be long or contain control characters.
std::string row_name(const std::string& name) {
  constexpr std::size_t kMostBytes = 30;
  std::string row = name.substr(0, kMostBytes);
  while (row.size() < name.size() && !row.empty() && (name[row.size()] & 0xC0) == 0x80) row.pop_back();
  for (char& letter : row)
    if (static_cast<unsigned char>(letter) < ' ' || letter == 0x7F) letter = '?';
  return row.size() < name.size() ? row + "..." : row;
}

}  // namespace

ProgressLine::ProgressLine(std::string what, std::string unit)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void ProgressLine::show(std::uint64_t done, std::uint64_t all) {
  const auto now = Clock::now();
  if (terminal_ ? now - shown_ < kBetweenLines && done != all : now - shown_ < kBetweenPlainLines) return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - begun_).count();
  const std::string rate = unit_ == "bytes" ? bytes_text(std::uint64_t(double(done) / seconds)) + "/s"
                                            : fmt::format("{:.0f} {}/s", double(done) / seconds, unit_);
  const double share = all > 0 ? double(done) / double(all) : 0;
  drawn_ = terminal_;
  if (terminal_)
    fmt::print(stderr, "\r{} {:<30}{:5.1f} %  {}\x1b[K", what_, bar(share, 30), 100 * share, rate);
  else
    fmt::print(stderr, "{}: {:.1f} %, {}\n", what_, 100 * share, rate);
  std::fflush(stderr);
}

std::string bar(double share, int width) {
  const auto eighths = int(std::ceil(std::clamp(share, 0.0, 1.0) * width * 8));
  std::string cells;
  for (int i = 0; i < eighths / 8; ++i) cells += kEighths[8];
  return cells + kEighths[std::size_t(eighths % 8)];
}

std::string draw_balance(const std::vector<std::uint64_t>& balance, const std::vector<std::string>& names) {
  if (balance.empty()) return "";
  const std::uint64_t largest = std::max<std::uint64_t>(1, *std::max_element(balance.begin(), balance.end()));
  std::vector<std::string> rows;
  std::size_t width = 11;
  for (std::size_t label = 0; label < std::min(balance.size(), kMostRows); ++label) {
    rows.push_back(label < names.size() ? row_name(names[label]) : fmt::format("class {}", label));
    width = std::max(width, rows.back().size());
  }
  std::string text;
  for (std::size_t label = 0; label < rows.size(); ++label)
    text += fmt::format("  {:<{}}{:>9}  {}\n", rows[label], width, balance[label],
                        bar(double(balance[label]) / double(largest), kBarWidth));
  if (balance.size() > kMostRows) text += fmt::format("  and {} classes more\n", balance.size() - kMostRows);
  return text;
}

std::string draw_split(const data::Split& split, const data::SplitColumns& columns) {
  std::size_t largest = 1;
  for (const auto& samples : split) largest = std::max(largest, samples.size());
  const bool classes = columns.classes > 0 && columns.classes <= 64;
  std::string text = classes
                         ? fmt::format("  {:<12}{:>9}  {:<22}share of each class\n", "client", "samples", "")
                         : fmt::format("  {:<12}{:>9}\n", "client", "samples");
  for (std::size_t client = 0; client < std::min(split.size(), kMostRows); ++client) {
    const auto& samples = split[client];
    std::vector<std::size_t> counts(classes ? std::size_t(columns.classes) : 0);
    if (classes)
      for (const std::uint64_t sample : samples) ++counts[std::size_t(columns.labels[sample])];
    const std::string whole = bar(double(samples.size()) / double(largest), 20);
    // Each cell of a bar takes three bytes.
    text += fmt::format("  {:<12}{:>9}  {}{}", client, samples.size(), whole,
                        std::string(22 - std::min<std::size_t>(22, whole.size() / 3), ' '));
    const std::size_t most =
        counts.empty() ? 1 : std::max<std::size_t>(1, *std::max_element(counts.begin(), counts.end()));
    for (const std::size_t count : counts) text += kHeights[(count * 8 + most - 1) / most];
    text += "\n";
  }
  if (split.size() > kMostRows) text += fmt::format("  and {} clients more\n", split.size() - kMostRows);
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"bytes", "kB", "MB", "GB", "TB"};
  auto value = double(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace distbelief::cli
