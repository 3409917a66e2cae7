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

// The connection from a primary to one backup. Nothing here blocks its caller: an item's `done` is called
// when the backup has it, or when the backup is no longer wanted. The thread db-backup connects, sends and
// calls `done`. Thread safe.
class BackupLink {
 public:
  struct Item {
    std::string header{};  // empty: nothing is sent
    std::span<const std::byte> payload{};
    std::shared_ptr<const void> owner{};  // keeps the payload alive
    std::function<void()> done{};         // called when the item is done; may be empty
  };
  // `on_broken` is called once, on the link's thread, when the backup does not accept an item: it no longer
  // counts as a backup, even if it lives.
  BackupLink(comm::ControlAddress address, std::string name, std::function<void()> on_broken);
  ~BackupLink();  // stop()

  bool is_broken() const { return broken_; }
  bool has_ended() const { return ended_; }  // it was released, and nothing is left to do
  // Items are sent in this order; the backup may handle them in another. The callers bound the queue: an item
  // for each unanswered request, and a few more.
  void hand_over(Item item);
  // The backup is no longer wanted: items that it does not confirm count as done.
  void release();
  // Releases the link; after it returns no `done` is called.
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
  std::unique_ptr<comm::ExchangeClient> client_;  // used only by the thread, like under_way_
  std::deque<Sent> under_way_;
  std::function<void()> on_broken_;
  std::atomic<bool> broken_{false};

  std::mutex mutex_;  // guards the next four
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool released_ = false;
  std::atomic<bool> ended_{false};  // nothing is left to send
  std::jthread thread_;             // last
};

}  // namespace distbelief::server
