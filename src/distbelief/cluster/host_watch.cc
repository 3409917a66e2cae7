#include "distbelief/cluster/host_watch.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/cluster/child.h"
#include "distbelief/cluster/launch.h"

namespace distbelief::cluster {
namespace {

constexpr std::chrono::seconds kDiscoveryDeadline{30};
constexpr std::chrono::seconds kProbeDeadline{5};
constexpr std::chrono::milliseconds kLookTwice{200};

}  // namespace

std::vector<HostSlots> find_hosts(const std::filesystem::path& hostfile, const std::string& discovery,
                                  const std::atomic<bool>& interrupted) {
  std::vector<HostSlots> hosts;
  if (!hostfile.empty()) {
    std::ifstream file(hostfile);
    if (!file)
      throw Error(ErrorCode::kUnavailable, fmt::format("the hostfile {} cannot be read", hostfile.string()));
    hosts = parse_host_lines({std::istreambuf_iterator<char>(file), {}}, hostfile.string());
  }
  if (!discovery.empty()) {
    const auto output = output_of({"/bin/sh", "-c", discovery}, kDiscoveryDeadline, interrupted);
    if (!output)
      throw Error(ErrorCode::kUnavailable,
                  fmt::format("elastic.discovery: '{}' failed, or took longer than {} s", discovery,
                              kDiscoveryDeadline.count()));
    std::ranges::move(parse_host_lines(*output, "elastic.discovery"), std::back_inserter(hosts));
  }
  return hosts;
}

HostWatch::HostWatch(Options options) : options_(std::move(options)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

HostWatch::~HostWatch() {
  ending_ = true;
  thread_ = {};
}

void HostWatch::run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "db-hosts");
  if (options_.hostfile.empty() && options_.discovery.empty()) return;
  while (!stop.stop_requested()) {
    const bool sure = look();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, sure ? options_.interval : kLookTwice,
                      [&] { return stop.stop_requested(); });
  }
}

// Keeps the current hosts when no list can be had: a failing command does not mean that hosts are gone. A new
// list counts when it is found twice in a row, because a file may be read while it is being written.
bool HostWatch::look() {
  try {
    std::vector<HostSlots> hosts = find_hosts(options_.hostfile, options_.discovery, ending_);
    last_complaint_.clear();
    const bool twice = seen_ == hosts;
    seen_ = hosts;
    const std::lock_guard lock(mutex_);
    if (twice) news_.hosts = std::move(hosts);
    return twice;
  } catch (const Error& error) {
    if (ending_ || last_complaint_ == error.what()) return true;
    last_complaint_ = error.what();
    const std::lock_guard lock(mutex_);
    news_.complaints.push_back(fmt::format("{}; going on with the hosts known so far", error.what()));
  }
  return true;
}

void HostWatch::ask(const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts) {
    if (std::ranges::any_of(questions_, [&](const Question& one) { return one.host == host; })) continue;
    questions_.push_back({host, std::async(std::launch::async, [this, host]() -> std::optional<Isa> {
                            const auto answer = answer_of(host, options_.program, kProbeDeadline, ending_);
                            if (!answer) return std::nullopt;
                            return answer->isa;
                          })});
  }
}

HostWatch::News HostWatch::take() {
  News news;
  {
    const std::lock_guard lock(mutex_);
    news = std::exchange(news_, {});
  }
  std::erase_if(questions_, [&](Question& one) {
    if (one.answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    try {
      news.answers.push_back({one.host, one.answer.get()});
    } catch (const Error& error) {  // the output of another program
      news.answers.push_back({one.host, std::nullopt});
      news.complaints.push_back(fmt::format("host {}: {}", one.host, error.what()));
    }
    return true;
  });
  return news;
}

}  // namespace distbelief::cluster
