#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "distbelief/base/host_order.h"

// Which machines a run has, and where its workers go. Pure but for the clock that callers bring.
namespace distbelief::cluster {

struct HostSlots {
  std::string host;
  int slots = 1;
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};
// "a:2,b:2"; a host that is named twice has the workers of both. Throws Error(kBadInput).
std::vector<HostSlots> parse_hosts(const std::string& text);
std::vector<HostSlots> parse_hosts(const std::vector<std::string>& texts);  // of all of them, one by one
// A hostfile or what a discovery command prints: a line `a:2` or `a slots=2` for each host, # for comments.
// Throws Error(kBadInput) with `source` and line.
std::vector<HostSlots> parse_host_lines(const std::string& text, const std::string& source);
std::string to_string(const std::vector<HostSlots>& hosts);  // "a:2,b:2"
// Of each host; of this machine alone, which has `workers`, when none is named.
std::vector<int> workers_per_host(const std::vector<HostSlots>& hosts, int workers);

// Where workers go. Ranks are dealt out in the hosts' order.
struct Placement {
  std::vector<HostSlots> hosts;  // empty: all on this machine
  int workers = 0;               // 0: there are too few hosts
  const std::string& host_of(int rank) const;
  friend bool operator==(const Placement&, const Placement&) = default;
};
// The same workers, the hosts in the order in which groups of ranks share them best.
Placement arranged(const Placement& placement, const RankGroups& groups);

// The hosts of a run and how they are. One that is lost or about to go gets no workers until it is back.
class HostBoard {
 public:
  using Clock = std::chrono::steady_clock;
  // `hosts` empty: this machine, which has room for any number of workers and is never lost.
  HostBoard(const std::vector<HostSlots>& hosts, const std::vector<HostSlots>& spares);

  bool is_local() const { return local_; }
  int slots() const;  // of all hosts that are no spares, lost ones too
  // So many workers as can be had, at most `wanted`; none if that is fewer than `min`. Spares come in when
  // the others do not do.
  Placement place(int wanted, int min) const;

  // It gets no workers for now; looked at again from `retry` on.
  void set_aside(const std::string& host, const std::string& why, Clock::time_point retry);
  void take_back(const std::string& host);
  void retry_later(const std::string& host, Clock::time_point retry);
  std::vector<std::string> due(Clock::time_point now) const;  // for another look
  bool is_good(const std::string& host) const;
  // "b (silent for 4.0 s), c (about to go)"
  std::string absent() const;

  // These are the hosts now, besides the spares. false: nothing new.
  bool replace(const std::vector<HostSlots>& hosts);

 private:
  struct Entry {
    HostSlots place;
    bool spare = false;
    std::string absent{};  // why; empty: it is there
    Clock::time_point retry{};
  };
  Entry* find(const std::string& host);
  bool local_;
  std::vector<Entry> entries_;
};

}  // namespace distbelief::cluster
