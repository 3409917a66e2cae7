#include "distbelief/server/client/backup_link.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include "distbelief/base/error.h"

namespace distbelief::server {
namespace {

constexpr std::size_t kUnderWay = 32;
constexpr std::chrono::seconds kUntilItIsThere{10};
constexpr std::chrono::milliseconds kAskAgain{5};
constexpr std::chrono::hours kUntilGone{24 * 365};  // it ends when the backup is gone

}  // namespace

BackupLink::BackupLink(comm::ControlAddress address, std::string name, std::function<void()> on_broken)
    : address_(std::move(address)),
      name_(std::move(name)),
      on_broken_(std::move(on_broken)),
      thread_([this] { run(); }) {}

BackupLink::~BackupLink() { stop(); }

void BackupLink::stop() {
  release();
  if (thread_.joinable()) thread_.join();
}

void BackupLink::hand_over(Item item) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) {
      items_.push_back(std::move(item));
      return changed_.notify_one();
    }
  }
  if (item.done) item.done();
}

void BackupLink::release() {
  {
    const std::lock_guard lock(mutex_);
    released_ = true;
  }
  changed_.notify_one();
}

void BackupLink::give_up(const char* why) {
  spdlog::warn("backup at {}: {}; waiting for what the supervisor says", address_.target, why);
  if (!broken_.exchange(true)) on_broken_();
}

void BackupLink::send(Item item) {
  Sent sent{.pending = {}, .item = std::move(item)};
  if (!sent.item.header.empty() && !broken_) try {
      if (!client_)
        client_ = std::make_unique<comm::ExchangeClient>(comm::ExchangeClient::Options{
            .address = address_, .role = "server", .name = name_, .in_flight = int(kUnderWay) + 1});
      sent.pending = client_->send(sent.item.header, sent.item.payload, {});
      sent.is_sent = true;
    } catch (const Error& error) {
      give_up(error.what());
    }
  under_way_.push_back(std::move(sent));
}

// An unavailable item is sent again: messages overtake each other, and a server may learn of a job or a map
// later than others.
void BackupLink::await(Sent& sent) {
  const auto give_up_at = std::chrono::steady_clock::now() + kUntilItIsThere;
  for (;; std::this_thread::sleep_for(kAskAgain)) try {
      sent.pending.wait(kUntilGone);
      return;
    } catch (const Error& error) {
      const bool is_late = std::chrono::steady_clock::now() > give_up_at;
      if (error.code() != ErrorCode::kUnavailable || is_late || !client_->connected()) throw;
      sent.pending = client_->send(sent.item.header, sent.item.payload, {});
    }
}

// A backup that refuses its primary's update is no backup: the supervisor handles it like a lost one.
void BackupLink::settle(Sent sent) {
  if (!broken_ && sent.is_sent) try {
      await(sent);
    } catch (const Error& error) {
      give_up(error.what());
    }
  if (broken_) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return released_; });
  }
  if (sent.item.done) sent.item.done();
}

void BackupLink::run() {
  pthread_setname_np(pthread_self(), "db-backup");
  for (;;) {
    std::optional<Item> next;
    {
      std::unique_lock lock(mutex_);
      const auto has_work = [&] { return released_ || !items_.empty(); };
      if (under_way_.empty()) changed_.wait(lock, has_work);
      if (released_ && items_.empty() && under_way_.empty()) {
        ended_ = true;
        return;
      }
      if (!items_.empty() && under_way_.size() < kUnderWay) {
        next = std::move(items_.front());
        items_.pop_front();
      }
    }
    if (next) {
      send(*std::move(next));
    } else {
      Sent first = std::move(under_way_.front());
      under_way_.pop_front();
      settle(std::move(first));
    }
  }
}

}  // namespace distbelief::server
