#include "distbelief/cluster/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <sstream>

#include "distbelief/base/error.h"

namespace distbelief::cluster {
namespace {

// Over all hosts: more than any launcher starts, and sums do not overflow.
constexpr int kMostWorkers = 1 << 20;

// Returns 0 for text that is no number of workers.
int slots_in(std::string_view text) {
  int slots = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  return error == std::errc{} && stop == text.data() + text.size() ? slots : 0;
}

HostSlots parse_host(const std::string& text) {
  const std::size_t colon = text.find(':');
  return {text.substr(0, colon),
          colon == std::string::npos ? 1 : slots_in(std::string_view(text).substr(colon + 1))};
}

// Adds up the slots of a host that is named twice.
std::vector<HostSlots> merged(const std::vector<HostSlots>& hosts) {
  std::vector<HostSlots> all;
  int workers = 0;
  for (const HostSlots& host : hosts) {
    if (host.slots > kMostWorkers - workers)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("hosts: at most {} workers may be named, '{}:{}' makes them "
                              "more",
                              kMostWorkers, host.host, host.slots));
    workers += host.slots;
    const auto known = std::ranges::find(all, host.host, &HostSlots::host);
    if (known == all.end())
      all.push_back(host);
    else
      known->slots += host.slots;
  }
  return all;
}

bool makes_sense(const HostSlots& host) {
  return !host.host.empty() && host.host[0] != '-' && host.slots >= 1;
}

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    hosts.push_back(parse_host(part));
    if (!makes_sense(hosts.back()))
      throw Error(ErrorCode::kBadInput, fmt::format("hosts: '{}' is not host:workers, as in a:2,b:2", part));
  }
  if (hosts.empty())
    throw Error(ErrorCode::kBadInput, "no hosts are given; write host:workers, as in a:2,b:2");
  return merged(hosts);
}

std::vector<HostSlots> parse_hosts(const std::vector<std::string>& texts) {
  std::vector<HostSlots> hosts;
  for (const std::string& text : texts) std::ranges::move(parse_hosts(text), std::back_inserter(hosts));
  return hosts;
}

std::vector<HostSlots> parse_host_lines(const std::string& text, const std::string& source) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host, slots;
    if (!(words >> host)) continue;
    HostSlots found = parse_host(host);
    if (words >> slots)
      found.slots = slots.starts_with("slots=") ? slots_in(std::string_view(slots).substr(6)) : 0;
    if (!makes_sense(found))
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{}:{}: '{}' is not host:workers, as in a:2", source, number, line));
    hosts.push_back(std::move(found));
  }
  return merged(hosts);
}

std::string to_string(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", host.host, host.slots);
  return text;
}

std::vector<int> workers_per_host(const std::vector<HostSlots>& hosts, int workers) {
  if (hosts.empty()) return {workers};
  std::vector<int> counts;
  for (const HostSlots& host : hosts) counts.push_back(host.slots);
  return counts;
}

const std::string& Placement::host_of(int rank) const {
  for (const HostSlots& host : hosts) {
    if (rank < host.slots) return host.host;
    rank -= host.slots;
  }
  static const std::string none;
  return none;
}

Placement arranged(const Placement& placement, const RankGroups& groups) {
  Placement other{{}, placement.workers};
  for (const std::size_t host : host_order(workers_per_host(placement.hosts, 0), groups))
    if (!placement.hosts.empty()) other.hosts.push_back(placement.hosts[host]);
  return other;
}

HostBoard::HostBoard(const std::vector<HostSlots>& hosts, const std::vector<HostSlots>& spares)
    : local_(hosts.empty()) {
  for (const HostSlots& host : hosts) entries_.push_back({host});
  for (const HostSlots& host : spares)
    if (find(host.host) == nullptr) entries_.push_back({host, true});
}

HostBoard::Entry* HostBoard::find(const std::string& host) {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.place.host == host; });
  return found == entries_.end() ? nullptr : &*found;
}

int HostBoard::slots() const {
  int sum = 0;
  for (const Entry& entry : entries_) sum += entry.spare ? 0 : entry.place.slots;
  return sum;
}

Placement HostBoard::place(int wanted, int min) const {
  if (local_) return {{}, wanted};
  Placement placement;
  for (const bool spare : {false, true})
    for (const Entry& entry : entries_) {
      const int room = std::min(entry.place.slots, wanted - placement.workers);
      if (entry.spare != spare || !entry.absent.empty() || room <= 0) continue;
      placement.hosts.push_back({entry.place.host, room});
      placement.workers += room;
    }
  return placement.workers < min ? Placement{} : placement;
}

void HostBoard::set_aside(const std::string& host, const std::string& why, Clock::time_point retry) {
  if (Entry* entry = find(host)) {
    entry->absent = why;
    entry->retry = retry;
  }
}

void HostBoard::take_back(const std::string& host) {
  if (Entry* entry = find(host)) entry->absent.clear();
}

void HostBoard::retry_later(const std::string& host, Clock::time_point retry) {
  if (Entry* entry = find(host)) entry->retry = retry;
}

bool HostBoard::is_good(const std::string& host) const {
  return std::ranges::any_of(
      entries_, [&](const Entry& entry) { return entry.place.host == host && entry.absent.empty(); });
}

std::vector<std::string> HostBoard::due(Clock::time_point now) const {
  std::vector<std::string> hosts;
  for (const Entry& entry : entries_)
    if (!entry.absent.empty() && now >= entry.retry) hosts.push_back(entry.place.host);
  return hosts;
}

std::string HostBoard::absent() const {
  std::string text;
  for (const Entry& entry : entries_)
    if (!entry.absent.empty())
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", entry.place.host, entry.absent);
  return text;
}

// Known hosts keep their order, so a mere reordering is no change.
bool HostBoard::replace(const std::vector<HostSlots>& hosts) {
  std::vector<Entry> next;
  const auto listed = [&](const Entry& entry) {
    return std::ranges::find(hosts, entry.place.host, &HostSlots::host);
  };
  for (const Entry& entry : entries_)
    if (!entry.spare && listed(entry) != hosts.end()) {
      next.push_back(entry);
      next.back().place.slots = listed(entry)->slots;
    }
  for (const HostSlots& host : hosts)
    if (std::ranges::none_of(next, [&](const Entry& entry) { return entry.place.host == host.host; }))
      next.push_back({host});
  for (const Entry& entry : entries_)
    if (entry.spare && listed(entry) == hosts.end()) next.push_back(entry);
  const bool changed = !std::ranges::equal(next, entries_, [](const Entry& a, const Entry& b) {
    return a.place == b.place && a.spare == b.spare;
  });
  entries_ = std::move(next);
  return changed;
}

}  // namespace distbelief::cluster
