#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace distbelief::comm {

// Decides which of a server's waiting clients is admitted next. Admission is expensive (a TLS handshake takes
// milliseconds), and only afterwards does the server know whether it wants the client. So each source, an
// address, has a few tokens ("turns"): an admitted client takes one and gives it back once it has proven
// itself; otherwise tokens are refilled slowly. Sources take turns, and so do the clients of each. Sources
// without a proven client also share a common token bucket. Not thread safe.
class Admission {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    double turns = 32;              // tokens of a source
    double turns_per_second = 4;    // refill rate
    double offence_turns = 16;      // tokens that an offence costs; also the largest debt
    double shared_turns = 64;       // tokens of all unknown sources together
    double shared_per_second = 16;  // refill rate
    std::size_t line = 32;          // waiting clients of one source
    std::size_t waiting = 128;      // waiting clients in all
  };
  explicit Admission(const Options& options) : options_(options), shared_{.turns = options.shared_turns} {}

  // Puts the visitor into its source's queue. Where there is no room, returns the visitor to send away: this
  // one, or the last of the longest queue, unknown sources first.
  std::optional<int> arrive(const std::string& source, int visitor);
  void leave(int visitor);
  // Returns the next visitor to admit, among those that are ready, and takes it out of its queue.
  std::optional<int> next(Clock::time_point now, const std::function<bool(int)>& is_ready);
  // A visitor from there is wanted: the source is known from now on.
  void prove(const std::string& source);
  // An admitted visitor from there has misbehaved and cost more than its admission.
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
  std::map<std::string, Source> sources_;  // with a queue, fewer than all tokens, or a proven client
  Turns shared_;
  std::string last_;  // the source admitted last
  std::size_t waiting_ = 0;
};

}  // namespace distbelief::comm
