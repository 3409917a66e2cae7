#include "distbelief/comm/link_stream.h"

#include <pthread.h>

#include <cstring>
#include <span>

#include "distbelief/base/error.h"

namespace distbelief::comm {
namespace {

constexpr std::size_t kMostDimensions = 8;

// The header sent before an array's bytes.
struct Announcement {
  std::int64_t tag = 0;
  std::int64_t type = 0;
  std::int64_t dimensions = 0;
  std::int64_t sizes[kMostDimensions] = {};
};

}  // namespace

LinkSender::LinkSender(const Options& options)
    : options_(options),
      thread_([this](const std::stop_token& stop) { run(stop); }) {
  pthread_setname_np(thread_.native_handle(), "db-stream");
}

LinkSender::~LinkSender() = default;

void LinkSender::send(const ArrayHead& head, const void* data) {
  DISTBELIEF_INVARIANT(head.shape.size() <= kMostDimensions);
  Announcement announcement{
      .tag = head.tag, .type = std::int64_t(head.type), .dimensions = std::int64_t(head.shape.size())};
  std::copy(head.shape.begin(), head.shape.end(), announcement.sizes);
  std::vector<std::byte> message(sizeof(announcement) + head.bytes());
  std::memcpy(message.data(), &announcement, sizeof(announcement));
  std::memcpy(message.data() + sizeof(announcement), data, head.bytes());
  std::unique_lock lock(mutex_);
  // No deadline needed here: the thread's own sends have one.
  changed_.wait(lock, [&] { return failure_ || waiting_.size() < options_.most_waiting; });
  if (failure_) std::rethrow_exception(failure_);
  waiting_.push_back(std::move(message));
  lock.unlock();
  changed_.notify_all();
}

void LinkSender::transmit(const std::vector<std::byte>& message) {
  Link::Request requests[] = {
      options_.link->start_send(message.data(), sizeof(Announcement), options_.receiver, options_.tag),
      options_.link->start_send(message.data() + sizeof(Announcement), message.size() - sizeof(Announcement),
                                options_.receiver, options_.tag)};
  options_.link->wait(requests, "send activations");
}

void LinkSender::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !waiting_.empty(); })) {
    const std::vector<std::byte> message = std::move(waiting_.front());
    lock.unlock();
    std::exception_ptr failure;
    try {
      transmit(message);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    waiting_.pop_front();
    if (failure) failure_ = failure;
    changed_.notify_all();
    if (failure) return;
  }
}

ArrayHead LinkReceiver::next() {
  Announcement announcement;
  Link::Request request[] = {
      link_.start_receive(reinterpret_cast<std::byte*>(&announcement), sizeof(announcement), sender_, tag_)};
  link_.wait(request, "receive activations");
  const ArrayHead head{.tag = announcement.tag,
                       .type = ElementType(announcement.type),
                       .shape = {announcement.sizes, announcement.sizes + announcement.dimensions}};
  bytes_ = head.bytes();
  return head;
}

void LinkReceiver::receive(void* data) {
  Link::Request request[] = {link_.start_receive(static_cast<std::byte*>(data), bytes_, sender_, tag_)};
  link_.wait(request, "receive activations");
}

}  // namespace distbelief::comm
