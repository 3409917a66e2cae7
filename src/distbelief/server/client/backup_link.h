#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "distbelief/comm/rpc/exchange_client.h"

namespace distbelief::server {

// The way from a primary to one backup. Nothing waits here: what was handed over is told to be done when the
// backup has it, or when the backup is not wanted any more. A thread of its own, db-backup, connects, sends
// and tells. Thread safe.
class BackupLink {
 public:
  struct Item {
    std::string header{};  // empty: nothing is sent
    std::span<const std::byte> payload{};
    std::shared_ptr<const void> owner{};  // of the payload
    std::function<void()> done{};         // what waits for it; may be empty
  };
  // `on_broken` is called on the link's thread, once, when the backup does not take what it is sent: it is
  // not one any more, though it may live.
  BackupLink(comm::ControlAddress address, std::string name, std::function<void()> on_broken);
  ~BackupLink();  // stop()

  bool is_broken() const { return broken_; }
  bool has_ended() const { return ended_; }  // it was released, and nothing is left to do
  // Items are sent in this order; the backup may see them in another. How many wait is bounded by whoever
  // hands them over: an item for each request that is not answered yet, and a few more.
  void hand_over(Item item);
  // The backup is gone: whoever waits need not.
  void release();
  // The same; and nobody is told anything any more when it returns.
  void stop();

 private:
  struct Sent {
    comm::ExchangeClient::Pending pending;
    Item item;
    bool is_sent = false;
  };
  void run();
  void send(Item item);
  void settle(Sent sent);
  void await(Sent& sent);
  void give_up(const char* why);

  comm::ControlAddress address_;
  std::string name_;
  std::unique_ptr<comm::ExchangeClient> client_;  // of the thread, as is the next
  std::deque<Sent> under_way_;
  std::function<void()> on_broken_;
  std::atomic<bool> broken_{false};

  std::mutex mutex_;  // guards the four below
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool released_ = false;
  std::atomic<bool> ended_{false};  // nobody is there to send anything
  std::jthread thread_;             // last
};

}  // namespace distbelief::server
