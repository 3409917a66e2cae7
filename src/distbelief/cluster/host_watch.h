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

// Looks after the hosts in the background: reads the hostfile and runs the discovery command on a thread of
// its own, `db-hosts`, and asks hosts whether they answer. For one thread.
class HostWatch {
 public:
  struct Options {
    std::filesystem::path hostfile;  // may be empty, as may the next
    std::string discovery;           // for the shell
    std::chrono::milliseconds interval{5000};
    std::filesystem::path program;  // that hosts are asked for
  };
  explicit HostWatch(Options options);
  ~HostWatch();

  // Asks these hosts, all at once; those that are being asked already are not asked twice.
  void ask(const std::vector<std::string>& hosts);

  struct Answer {
    std::string host;
    std::optional<Isa> isa;  // nothing: it did not answer
  };
  struct News {
    std::optional<std::vector<HostSlots>>
        hosts;  // of file and command, if they gave a list since the last time
    std::vector<Answer> answers;
    std::vector<std::string> complaints;  // each once
  };
  News take();

 private:
  void run(const std::stop_token& stop);
  bool look();  // false: once more, soon

  const Options options_;
  std::atomic<bool> ending_{false};
  std::string last_complaint_;
  std::optional<std::vector<HostSlots>> seen_;  // at the last look
  struct Question {
    std::string host;
    std::future<std::optional<Isa>> answer;
  };
  std::vector<Question> questions_;  // not answered yet; of the caller's thread
  std::mutex mutex_;                 // guards news_
  std::condition_variable_any changed_;
  News news_;
  std::jthread thread_;
};

// The hosts that file and command name now, the file's first. Throws Error: kBadInput for lines that make no
// sense, kUnavailable when the file cannot be read or the command fails.
std::vector<HostSlots> find_hosts(const std::filesystem::path& hostfile, const std::string& discovery,
                                  const std::atomic<bool>& interrupted);

}  // namespace distbelief::cluster
