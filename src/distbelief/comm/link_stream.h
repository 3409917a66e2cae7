#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "distbelief/comm/link.h"
#include "distbelief/comm/stream.h"

namespace distbelief::comm {

// A stream between workers of different hosts: messages over a link, with a tag that no other messages
// between the two have. The thread db-stream sends, so that a large array travels while the next is computed.
// The link is borrowed and must allow several threads.
class LinkSender final : public StreamSender {
 public:
  struct Options {
    Link* link = nullptr;
    int receiver = 0;  // rank of the link
    int tag = 0;
    std::size_t most_waiting = 4;  // arrays queued; then send() blocks
  };
  explicit LinkSender(const Options& options);
  ~LinkSender() override;  // drops arrays not yet sent
  void send(const ArrayHead& head, const void* data) override;

 private:
  void run(const std::stop_token& stop);
  void transmit(const std::vector<std::byte>& message);

  Options options_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::vector<std::byte>> waiting_;
  std::exception_ptr failure_;
  std::jthread thread_;
};

class LinkReceiver final : public StreamReceiver {
 public:
  LinkReceiver(Link& link, int sender, int tag) : link_(link), sender_(sender), tag_(tag) {}
  ArrayHead next() override;
  void receive(void* data) override;

 private:
  Link& link_;
  int sender_;
  int tag_;
  std::size_t bytes_ = 0;
};

}  // namespace distbelief::comm
