#include "distbelief/comm/rpc/exchange_connection.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange_hub.h"
#include "distbelief/comm/rpc/transport.h"

namespace distbelief::comm {
namespace {

// A connection this old has proven itself; a client that connects and leaves at once has not.
constexpr std::chrono::seconds kStays{1};

std::string read_header(MessageReader& reader, const Frame& frame) {
  std::string header(frame.header_bytes, '\0');
  reader.read(std::as_writable_bytes(std::span(header)));
  return header;
}

}  // namespace

ExchangeConnection::ExchangeConnection(grpc::CallbackServerContext& context, ExchangeHub& hub,
                                       std::uint64_t number)
    : context_(context),
      hub_(hub),
      peer_{.connection = number, .name = context.peer()} {}

void ExchangeConnection::begin() {
  kept_ = shared_from_this();
  const std::lock_guard lock(mutex_);
  read_on();
}

void ExchangeConnection::read_on() {
  if (reading_ || finishing_ || unread_bytes_ > hub_.options().most_unread_bytes) return;
  reading_ = true;
  StartRead(&incoming_);
}

// The head is checked before the next read, so that request numbers are seen in order. The payload is copied
// and handled while another thread may read the next message.
void ExchangeConnection::OnReadDone(bool ok) {
  grpc::ByteBuffer message;
  {
    const std::lock_guard lock(mutex_);
    if (!ok) return stop(grpc::Status::OK);
    message.Swap(&incoming_);
  }
  MessageReader reader(message);
  Frame frame;
  const Judgement judgement = judge(reader, frame);
  {
    const std::lock_guard lock(mutex_);
    if (!judgement.why.empty()) {
      if (greeted_ && !finishing_) hub_.door().offend(context_.peer());
      return drop(judgement.why, judgement.code);
    }
    reading_ = false;  // not earlier: a write that ends meanwhile would start a read
    read_on();
  }
  if (frame.kind == FrameKind::kRequest) pass_on(reader, frame);
}

ExchangeConnection::Judgement ExchangeConnection::judge(MessageReader& reader, Frame& frame) {
  if (std::string why = take(reader, frame); !why.empty())
    return {std::move(why), grpc::StatusCode::INVALID_ARGUMENT};
  if (frame.kind == FrameKind::kHello) return {greet(reader, frame), grpc::StatusCode::PERMISSION_DENIED};
  return {begin_request(), grpc::StatusCode::RESOURCE_EXHAUSTED};
}

std::string ExchangeConnection::take(MessageReader& reader, Frame& frame) {
  if (reader.size() < kFrameBytes) return fmt::format("a message of {} bytes", reader.size());
  FrameHead head;
  reader.read(head);
  frame = decode_frame(head);
  const std::string why = check_frame(frame, {.sender = FrameSender::kClient,
                                              .message_bytes = reader.size(),
                                              .shared_bytes = memory_ ? memory_->bytes().size() : 0});
  if (!why.empty()) return why;
  const bool first = peer_.role.empty();
  if (first != (frame.kind == FrameKind::kHello))
    return first ? "a request before the greeting" : "a second greeting";
  if (!first && frame.number <= last_number_)
    return fmt::format("request {} after {}", frame.number, last_number_);
  last_number_ = frame.number;
  return "";
}

std::string ExchangeConnection::greet(MessageReader& reader, const Frame& frame) {
  Hello hello;
  try {
    hello = decode_hello(read_header(reader, frame));
  } catch (const Error& error) {
    return error.message();
  }
  const ExchangeServer::Options& options = hub_.options();
  const bool wanted = std::ranges::find(options.roles, hello.role) != options.roles.end();
  if (!wanted) return fmt::format("role '{}' may not connect here", hello.role);
  if (!options.insecure && !has_role(*context_.auth_context(), options.address, hello.role))
    return fmt::format("the certificate is not of role '{}'", hello.role);
  return welcome(hello);
}

std::string ExchangeConnection::welcome(const Hello& hello) {
  const bool same_host = !socket_path(hub_.options().address).empty();
  peer_.role = hello.role;
  if (!hello.name.empty()) peer_.name = hello.name;
  memory_ = same_host ? hub_.share(hello.shared_bytes, peer_) : nullptr;
  const std::string header = encode(Welcome{.connection = peer_.connection,
                                            .in_flight = hub_.options().in_flight,
                                            .memory = memory_ ? memory_->place() : SharedMemory::Place{}});
  const Frame frame{.kind = FrameKind::kWelcome, .header_bytes = std::uint32_t(header.size())};
  hub_.count_accepted();
  const std::lock_guard lock(mutex_);
  shared_bytes_ = memory_ ? memory_->bytes().size() : 0;
  greeted_ = true;
  enqueue(make_message(frame, header, std::span<const std::byte>{}));
  return "";
}

std::string ExchangeConnection::begin_request() {
  const std::lock_guard lock(mutex_);
  if (unanswered_ >= hub_.options().in_flight)
    return fmt::format("more than {} requests at a time", hub_.options().in_flight);
  ++unanswered_;
  return "";
}

void ExchangeConnection::pass_on(MessageReader& reader, const Frame& frame) {
  auto content = std::make_unique<ExchangeServer::Request::Content>();
  content->source = shared_from_this();
  content->pool = hub_.pool();
  content->memory = memory_;
  content->frame = frame;
  content->header = read_header(reader, frame);
  if (!frame.payload_shared && frame.payload_bytes > 0) {
    content->payload = hub_.pool()->take();
    reader.read({content->payload.data(), frame.payload_bytes});
  }
  hub_.count_request();
  hub_.handler().handle(ExchangeServer::Request(std::move(content)));
}

void ExchangeConnection::send(grpc::ByteBuffer message) {
  const std::lock_guard lock(mutex_);
  --unanswered_;
  if (finishing_) return;
  enqueue(std::move(message));
}

void ExchangeConnection::enqueue(grpc::ByteBuffer message) {
  unread_bytes_ += message.Length();
  answers_.push_back(std::move(message));
  go_on();
}

void ExchangeConnection::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  unread_bytes_ -= answers_.front().Length();
  answers_.pop_front();
  if (!ok) return stop(grpc::Status::OK);  // the client has gone
  read_on();
  go_on();
}

void ExchangeConnection::stop(const grpc::Status& status) {
  // The message being written belongs to gRPC until OnWriteDone.
  answers_.erase(answers_.begin() + (writing_ ? 1 : 0), answers_.end());
  if (!finishing_) status_ = status;
  finishing_ = true;
  go_on();
}

void ExchangeConnection::finish_after_answers(const grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  if (finishing_) return;
  finishing_ = true;
  status_ = status;
  go_on();
}

void ExchangeConnection::go_on() {
  if (writing_ || finished_) return;
  if (!answers_.empty()) {
    writing_ = true;
    write_began_ = Clock::now();
    StartWrite(&answers_.front());
  } else if (finishing_) {
    finished_ = true;
    Finish(status_);
  }
}

void ExchangeConnection::drop(const std::string& why, grpc::StatusCode code) {
  if (finishing_) return;
  greeted_ ? hub_.count_dropped() : hub_.count_turned_away();
  spdlog::warn("exchange: connection {} of {} '{}' is dropped: {}", peer_.connection,
               peer_.role.empty() ? "unknown role" : peer_.role, peer_.name, why);
  stop({code, why});
}

void ExchangeConnection::limit_shared(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  needed_bytes_ = std::max(needed_bytes_, bytes);
  if (shared_bytes_ > needed_bytes_)
    drop(fmt::format("it has {} bytes of shared memory and needs {}", shared_bytes_, needed_bytes_),
         grpc::StatusCode::INVALID_ARGUMENT);
}

void ExchangeConnection::look(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (done_) return;
  if (greeted_ && !finishing_ && !stays_ && now - opened_ > kStays) {
    stays_ = true;
    hub_.door().prove(context_.peer());
  }
  const std::chrono::milliseconds shared = hub_.options().shared_deadline;
  if (shared.count() > 0 && shared_bytes_ > 0 && needed_bytes_ == 0 && now - opened_ > shared)
    return drop(fmt::format("it has had {} bytes of shared memory for {} ms and nothing to do with them",
                            shared_bytes_, shared.count()),
                grpc::StatusCode::DEADLINE_EXCEEDED);
  const std::chrono::milliseconds deadline = hub_.options().stall_deadline;
  const bool stalled = writing_ && now - write_began_ > deadline;
  const bool silent = !greeted_ && now - opened_ > deadline;
  if (!stalled && !silent) return;
  drop(fmt::format("{} for {} ms", stalled ? "it has read nothing" : "no greeting", deadline.count()),
       grpc::StatusCode::DEADLINE_EXCEEDED);
  if (stalled) context_.TryCancel();  // otherwise the write in flight would keep it
}

void ExchangeConnection::OnDone() {
  const std::shared_ptr<ExchangeConnection> self = std::move(kept_);
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  memory_.reset();  // before gone() is called: the client may reconnect and need as much
  hub_.leave(*this, greeted_);
}

}  // namespace distbelief::comm
