#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distbelief/cluster/hosts.h"
#include "distbelief/cluster/isa.h"

namespace distbelief::cluster {

// Watches hosts in the background: reads the hostfile and runs the discovery command on its own thread,
// `db-hosts`, and asks hosts whether they answer. The interface is for one thread.
class HostWatch {
 public:
  struct Options {
    std::filesystem::path hostfile;  // may be empty, as may `discovery`
    std::string discovery;           // a shell command
    std::chrono::milliseconds interval{5000};
    std::filesystem::path program;  // the program that hosts are asked to run
  };
  explicit HostWatch(Options options);
  ~HostWatch();

  // Asks these hosts, all at once; a host with an unanswered question is not asked again.
  void ask(const std::vector<std::string>& hosts);

  struct Answer {
    std::string host;
    std::optional<Isa> isa;  // empty: no answer
  };
  struct News {
    // The list from file and command, if they gave one since the last call.
    std::optional<std::vector<HostSlots>> hosts;
    std::vector<Answer> answers;
    std::vector<std::string> complaints;  // each reported once
  };
  News take();

 private:
  void run(const std::stop_token& stop);
  bool look();  // false: poll again soon

  const Options options_;
  std::atomic<bool> ending_{false};
  std::string last_complaint_;
  std::optional<std::vector<HostSlots>> seen_;  // in the last poll
  struct Question {
    std::string host;
    std::future<std::optional<Isa>> answer;
  };
  std::vector<Question> questions_;  // unanswered; used by the caller's thread only
  std::mutex mutex_;                 // guards news_
  std::condition_variable_any changed_;
  News news_;
  std::jthread thread_;
};

// The hosts that file and command currently list, the file's first. Throws Error: kBadInput for malformed
// lines, kUnavailable when the file cannot be read or the command fails.
std::vector<HostSlots> find_hosts(const std::filesystem::path& hostfile, const std::string& discovery,
                                  const std::atomic<bool>& interrupted);

}  // namespace distbelief::cluster
