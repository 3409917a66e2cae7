#include "distbelief/report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace distbelief::report {
namespace {

constexpr int kMinBarWidth = 6;
constexpr int kMaxBarWidth = 30;

double fraction_done(const ProgressState& state) {
  if (state.steps <= 0) return 0.0;
  return std::clamp(static_cast<double>(state.step) / static_cast<double>(state.steps), 0.0, 1.0);
}

std::string loss_text(double loss) {
  const double size = std::abs(loss);
  if (size != 0.0 && size < 0.001) return fmt::format("{:.2e}", loss);
  if (size < 10.0) return fmt::format("{:.4f}", loss);
  return size < 1000.0 ? fmt::format("{:.2f}", loss) : fmt::format("{:.3g}", loss);
}

std::string rate_number(double rate) {
  if (rate < 10.0) return fmt::format("{:.1f}", rate);
  if (rate < 1000.0) return fmt::format("{:.0f}", rate);
  return rate < 1e6 ? fmt::format("{:.1f}k", rate / 1e3) : fmt::format("{:.1f}M", rate / 1e6);
}

std::string duration_text(double seconds) {
  constexpr double kTooLong = 100.0 * 24 * 3600;
  if (!(seconds >= 0.0 && seconds < kTooLong)) return "--:--";
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours >= 48) return fmt::format("{}d {}h", hours / 24, hours % 24);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string epoch_text(const ProgressState& state) {
  return fmt::format("epoch {}/{}", state.epoch, state.epochs);
}
std::string step_text(const ProgressState& state) {
  return fmt::format("step {}/{}", state.step, state.steps);
}
// Rounds down, so that 100% appears only at the end.
std::string percent_text(const ProgressState& state) {
  return fmt::format("{:3}%", static_cast<int>(100.0 * fraction_done(state)));
}
std::string test_text(double accuracy) { return fmt::format("  test {:.1f}%", 100.0 * accuracy); }
std::string rate_text(const ProgressState& state) {
  return fmt::format("  {} samples/s", rate_number(state.samples_per_second));
}

std::string ascii_blocks(double fraction, int width) {
  const int filled = static_cast<int>(fraction * width);
  std::string bar = std::string(static_cast<std::size_t>(filled), '=');
  if (filled > 0 && filled < width) bar.back() = '>';
  return bar + std::string(static_cast<std::size_t>(width - filled), ' ');
}

std::string unicode_blocks(double fraction, int width) {
  constexpr std::array<const char*, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(fraction * width * 8);
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[static_cast<std::size_t>(eighths % 8)];
  const int used = (eighths + 7) / 8;
  return bar + std::string(static_cast<std::size_t>(width - used), ' ');
}

// The texts around the bar, in display order.
struct BarTexts {
  std::string epoch, step, loss, test, rate, left;

  int width() const {
    return static_cast<int>(epoch.size() + step.size() + loss.size() + test.size() + rate.size() +
                            left.size());
  }
};

BarTexts bar_texts(const ProgressState& state) {
  return {.epoch = epoch_text(state) + " ",
          .step = " " + step_text(state),
          .loss = "  loss " + loss_text(state.loss),
          .test = state.test_accuracy ? test_text(*state.test_accuracy) : "",
          .rate = rate_text(state),
          .left = fmt::format("  {} left", duration_text(state.seconds_left))};
}

int display_width(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::string render_bar(const ProgressState& state, int columns, Glyphs glyphs) {
  constexpr int kBrackets = 2;
  BarTexts texts = bar_texts(state);
  const auto room = [&] { return columns - kBrackets - texts.width(); };
  // The test result comes first, because the epoch's line shows it too.
  for (std::string* text : {&texts.test, &texts.rate, &texts.left, &texts.epoch, &texts.loss}) {
    if (room() < kMinBarWidth) text->clear();
  }
  if (room() < kMinBarWidth)
    return percent_text(state).substr(0, static_cast<std::size_t>(std::max(columns, 0)));
  const int width = std::min(room(), kMaxBarWidth);
  const double fraction = fraction_done(state);
  return fmt::format(
      "{}[{}]{}{}{}{}{}", texts.epoch,
      glyphs == Glyphs::kUnicode ? unicode_blocks(fraction, width) : ascii_blocks(fraction, width),
      texts.step, texts.loss, texts.test, texts.rate, texts.left);
}

std::string render_line(const ProgressState& state) {
  return fmt::format("{}  {}  loss {}{}{}  {} left", epoch_text(state), step_text(state),
                     loss_text(state.loss), state.test_accuracy ? test_text(*state.test_accuracy) : "",
                     rate_text(state), duration_text(state.seconds_left));
}

void Progress::update(const ProgressState& state, Time now) {
  const auto interval =
      options_.style == ProgressStyle::kBar ? options_.bar_interval : options_.plain_interval;
  if (last_shown_ && now - *last_shown_ < interval) {
    held_back_ = state;
    return;
  }
  last_shown_ = now;
  draw(state);
}

void Progress::end_epoch(const ProgressState& state, Time now) {
  last_shown_ = now;
  print_line(state);
}

void Progress::finish() {
  if (held_back_) draw(*held_back_);
  if (bar_width_ == 0) return;
  std::fputc('\n', options_.out);
  std::fflush(options_.out);
  bar_width_ = 0;
}

void Progress::clear() {
  if (bar_width_ == 0) return;
  replace_bar("", 0);
  std::fputc('\r', options_.out);
  std::fflush(options_.out);
}

void Progress::draw(const ProgressState& state) {
  if (options_.style != ProgressStyle::kBar) return print_line(state);
  held_back_.reset();
  const std::string text =
      render_bar(state, options_.columns, options_.utf8 ? Glyphs::kUnicode : Glyphs::kAscii);
  replace_bar(text, display_width(text));
  std::fflush(options_.out);
}

void Progress::print_line(const ProgressState& state) {
  held_back_.reset();
  if (options_.style == ProgressStyle::kNone) return;
  std::string text = render_line(state);
  if (options_.style == ProgressStyle::kBar) {
    text.resize(std::min(text.size(), static_cast<std::size_t>(std::max(options_.columns, 0))));
    replace_bar(text, static_cast<int>(text.size()));
  } else {
    std::fputs(text.c_str(), options_.out);
  }
  std::fputc('\n', options_.out);
  std::fflush(options_.out);
  bar_width_ = 0;
}

// Blanks instead of an escape sequence, because they work on every terminal.
void Progress::replace_bar(const std::string& text, int width) {
  const int blanks = std::max(bar_width_ - width, 0);
  fmt::print(options_.out, "\r{}{:{}}", text, "", blanks);
  bar_width_ = width;
}

}  // namespace distbelief::report
