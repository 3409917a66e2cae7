#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace distbelief::comm {

// Decides who of those who knock at a server is let in next. To let one in is dear (a TLS handshake takes
// milliseconds), and whether it is wanted is known only afterwards. So each source, an address, has a few
// turns: a visitor that is let in takes one, and gives it back when it has proven itself; else a new one
// comes from time to time. Sources have their turns one after another, and so have the visitors of each.
// Those that nobody wanted has come from yet also share turns. Not thread safe.
class Admission {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    double turns = 32;              // of a source
    double turns_per_second = 4;    // that come again
    double offence_turns = 16;      // that an offence takes; at most so many are owed
    double shared_turns = 64;       // of all sources that are not known
    double shared_per_second = 16;  // that come again
    std::size_t line = 32;          // visitors of one source that wait
    std::size_t waiting = 128;      // all that wait
  };
  explicit Admission(const Options& options) : options_(options), shared_{.turns = options.shared_turns} {}

  // Takes its place in its source's line. Gives who has to go for it, where there is no room: itself, or the
  // last of the longest line, strangers first.
  std::optional<int> arrive(const std::string& source, int visitor);
  void leave(int visitor);
  // Whose turn it is, who leaves the line with it; of those that are ready.
  std::optional<int> next(Clock::time_point now, const std::function<bool(int)>& is_ready);
  // A visitor from there is wanted: from now on the source is known.
  void prove(const std::string& source);
  // A visitor from there was let in and has misbehaved, at more cost than to let it in.
  void offend(const std::string& source);

  std::size_t waiting() const { return waiting_; }
  bool is_full(const std::string& source) const;

 private:
  struct Turns {
    double turns = 0;
    std::optional<Clock::time_point> counted{};
    void refill(Clock::time_point now, double per_second, double most);
    void give_back(double most);
  };
  struct Source {
    Turns turns{};
    bool is_known = false;
    std::deque<int> line{};
  };
  Source& at(const std::string& source);
  std::optional<int> take(Source& source, Clock::time_point now, const std::function<bool(int)>& is_ready);
  void forget_idle(Clock::time_point now);
  Source* source_to_shorten(Source& own);
  int drop_last(Source& source);

  Options options_;
  std::map<std::string, Source> sources_;  // that have a line, or less than all turns, or are known
  Turns shared_;
  std::string last_;  // source that had its turn
  std::size_t waiting_ = 0;
};

}  // namespace distbelief::comm
