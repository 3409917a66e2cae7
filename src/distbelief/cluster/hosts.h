#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "distbelief/base/host_order.h"

// The machines of a run and the placement of its workers. Pure; callers pass the time.
namespace distbelief::cluster {

struct HostSlots {
  std::string host;
  int slots = 1;
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};
// Parses "a:2,b:2"; slots of a host that is named twice add up. Throws Error(kBadInput).
std::vector<HostSlots> parse_hosts(const std::string& text);
std::vector<HostSlots> parse_hosts(const std::vector<std::string>& texts);  // joins the lists
// Parses a hostfile or the output of a discovery command: one line `a:2` or `a slots=2` per host, # for
// comments. Throws Error(kBadInput) with `source` and line.
std::vector<HostSlots> parse_host_lines(const std::string& text, const std::string& source);
std::string to_string(const std::vector<HostSlots>& hosts);  // "a:2,b:2"
// The workers of each host; without hosts, this machine with `workers`.
std::vector<int> workers_per_host(const std::vector<HostSlots>& hosts, int workers);

// A placement of workers. Ranks follow the order of the hosts.
struct Placement {
  std::vector<HostSlots> hosts;  // empty: all on this machine
  int workers = 0;               // 0: there are too few hosts
  const std::string& host_of(int rank) const;
  friend bool operator==(const Placement&, const Placement&) = default;
};
// The same workers, with the hosts ordered so that groups of ranks share hosts as well as possible.
Placement arranged(const Placement& placement, const RankGroups& groups);

// The hosts of a run and their state. A host that is lost or about to leave gets no workers until it is back.
class HostBoard {
 public:
  using Clock = std::chrono::steady_clock;
  // With `hosts` empty: this machine, which has room for any number of workers and is never lost.
  HostBoard(const std::vector<HostSlots>& hosts, const std::vector<HostSlots>& spares);

  bool is_local() const { return local_; }
  int slots() const;  // of all hosts but spares, including lost ones
  // Places up to `wanted` workers; none if fewer than `min` fit. Uses spares only when the other hosts do not
  // suffice.
  Placement place(int wanted, int min) const;

  // Excludes a host for now; it is due for another check from `retry` on.
  void set_aside(const std::string& host, const std::string& why, Clock::time_point retry);
  void take_back(const std::string& host);
  void retry_later(const std::string& host, Clock::time_point retry);
  std::vector<std::string> due(Clock::time_point now) const;  // hosts to check again
  bool is_good(const std::string& host) const;
  // "b (silent for 4.0 s), c (about to go)"
  std::string absent() const;

  // Sets the current hosts, besides the spares. Returns false if nothing changed.
  bool replace(const std::vector<HostSlots>& hosts);

 private:
  struct Entry {
    HostSlots place;
    bool spare = false;
    std::string absent{};  // the reason; empty: available
    Clock::time_point retry{};
  };
  Entry* find(const std::string& host);
  bool local_;
  std::vector<Entry> entries_;
};

}  // namespace distbelief::cluster
