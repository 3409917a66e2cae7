#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace distbelief::report {

struct ProgressState {
  std::int64_t epoch = 1;  // counts from 1
  std::int64_t epochs = 0;
  std::int64_t step = 0;   // done, over all epochs
  std::int64_t steps = 0;  // total of the run
  double loss = 0.0;
  double samples_per_second = 0.0;
  double seconds_left = 0.0;
  std::optional<double> test_accuracy;  // 0 to 1; set after the first test
};

enum class Glyphs { kAscii, kUnicode };

// One line for a terminal, at most `columns` wide; drops the least important text first.
std::string render_bar(const ProgressState& state, int columns, Glyphs glyphs = Glyphs::kAscii);
// One line for a log.
std::string render_line(const ProgressState& state);

enum class ProgressStyle { kBar, kPlain, kNone };

// Shows the progress of a run. kBar redraws one line and leaves a line per epoch; kPlain prints a line at
// intervals and one per epoch. The caller gives the time, which must not go backwards. Not thread-safe. A
// terminal that has gone away is no error: training continues.
class Progress {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Options {
    ProgressStyle style = ProgressStyle::kPlain;
    std::FILE* out = stderr;  // borrowed
    int columns = 80;
    bool utf8 = false;  // whether the terminal shows Unicode blocks
    std::chrono::milliseconds bar_interval{100};
    std::chrono::milliseconds plain_interval{5000};
  };
  explicit Progress(Options options) : options_(options) {}

  void update(const ProgressState& state, Time now);
  void end_epoch(const ProgressState& state, Time now);
  // Shows the last state that was held back and ends the line. The last call.
  void finish();
  // Removes the bar from the screen, so that other text may be printed; the next update draws it again.
  void clear();

 private:
  void draw(const ProgressState& state);
  void print_line(const ProgressState& state);
  void replace_bar(const std::string& text, int width);

  Options options_;
  std::optional<Time> last_shown_;
  std::optional<ProgressState> held_back_;
  int bar_width_ = 0;  // characters now on the terminal's line
};

}  // namespace distbelief::report
