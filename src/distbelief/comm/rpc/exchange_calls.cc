// Requests and their answers at the client.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "distbelief/comm/rpc/exchange_client_state.h"

namespace distbelief::comm {
namespace {

// Below this a copy is cheaper than lending.
constexpr std::size_t kCopiedBytes = 8 << 10;
// TCP detects a silent peer long before this, and a Unix socket is cut.
constexpr std::chrono::minutes kLoanDeadline{2};
// For a request that has just been sent: it saves cutting the connection.
constexpr std::chrono::milliseconds kLoanGrace{20};

Error lost_connection(const ControlAddress& address, const std::string& why) {
  return {ErrorCode::kUnavailable,
          fmt::format("the connection to the server at {} is lost: {}", address.target, why)};
}

// The place in shared memory, if the part can be passed by reference.
std::optional<std::uint64_t> shared_place(const SharedMemory* memory, std::span<const std::byte> part) {
  if (memory == nullptr) return std::nullopt;
  const std::optional<std::uint64_t> place = memory->offset(part);
  return place && *place % kSharedAlignment == 0 ? place : std::nullopt;
}

}  // namespace

std::shared_ptr<ExchangeClient::Call> ExchangeClient::State::send(const std::string& header,
                                                                  std::span<const std::byte> payload,
                                                                  std::span<std::byte> into) {
  if (header.size() > kMaxHeaderBytes || payload.size() > kMaxPayloadBytes || into.size() > kMaxPayloadBytes)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format(
            "a request has at most {} bytes of header and {} of payload, each way; this one has {}, {} "
            "and room for {}; cut it",
            kMaxHeaderBytes, kMaxPayloadBytes, header.size(), payload.size(), into.size()));
  auto call = std::make_shared<Call>();
  call->into = into;
  Lock lock(mutex_);
  wait_for_turn(lock);
  call->number = ++last_number_;
  requests_.push_back(make_request(*call, header, payload));
  calls_.emplace(call->number, call);
  go_on();
  return call;
}

void ExchangeClient::State::wait_for_turn(Lock& lock) {
  const auto free = [&] { return ended_ || closing_ || calls_.size() < std::size_t(in_flight_); };
  if (!changed_.wait_for(lock, options_.send_deadline, free))
    throw Error(ErrorCode::kTimeout,
                fmt::format("the server at {} answered none of {} requests within {} ms",
                            options_.address.target, in_flight_, options_.send_deadline.count()));
  if (closing_) throw lost_connection(options_.address, "it was closed");
  if (ended_) throw lost_connection(options_.address, status_.error_message());
}

ExchangeClient::State::Outgoing ExchangeClient::State::make_request(Call& call, const std::string& header,
                                                                    std::span<const std::byte> payload) {
  const std::optional<std::uint64_t> payload_at = shared_place(memory_.get(), payload);
  const std::optional<std::uint64_t> room_at = shared_place(memory_.get(), call.into);
  call.into_shared = room_at.has_value();
  const Frame frame{.kind = FrameKind::kRequest,
                    .payload_shared = payload_at.has_value(),
                    .room_shared = room_at.has_value(),
                    .header_bytes = std::uint32_t(header.size()),
                    .payload_bytes = std::uint32_t(payload.size()),
                    .room_bytes = std::uint32_t(call.into.size()),
                    .number = call.number,
                    .payload_at = payload_at.value_or(0),
                    .room_at = room_at.value_or(0)};
  if (payload_at) return {call.number, make_message(frame, header, std::span<const std::byte>{})};
  if (payload.size() <= kCopiedBytes) return {call.number, make_message(frame, header, payload)};
  call.loan = std::make_shared<Loan>();
  const grpc::Slice lent = lend(payload, call.loan);
  return {call.number, make_message(frame, header, &lent)};
}

void ExchangeClient::State::go_on() {
  if (writing_ || ended_ || requests_.empty()) return;
  writing_ = true;
  StartWrite(&requests_.front().message);
}

void ExchangeClient::State::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  requests_.pop_front();
  if (ok) return go_on();
  ended_ = true;  // the read in flight fails too
  requests_.clear();
}

void ExchangeClient::State::OnReadDone(bool ok) {
  if (!ok) return end_reading();
  grpc::ByteBuffer message;
  message.Swap(&incoming_);
  MessageReader reader(message);
  Frame frame;
  std::shared_ptr<Call> call;
  std::string why = take(reader, frame);
  if (why.empty())
    why = frame.kind == FrameKind::kWelcome ? accept(reader, frame) : begin_answer(frame, call);
  if (!why.empty()) {
    const std::lock_guard lock(mutex_);
    broken_ = "what it sent cannot be taken: " + why;
    cancel();
  }
  StartRead(&incoming_);  // another thread may receive the next answer while this one is copied
  if (call) receive(reader, frame, *call);
}

void ExchangeClient::State::end_reading() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    requests_.erase(requests_.begin() + (writing_ ? 1 : 0), requests_.end());
    changed_.notify_all();
  }
  RemoveHold();  // nothing is started from now on
}

std::string ExchangeClient::State::take(MessageReader& reader, Frame& frame) {
  if (reader.size() < kFrameBytes) return fmt::format("a message of {} bytes", reader.size());
  FrameHead head;
  reader.read(head);
  frame = decode_frame(head);
  std::string why = check_frame(frame, {.sender = FrameSender::kServer, .message_bytes = reader.size()});
  if (!why.empty()) return why;
  const std::lock_guard lock(mutex_);
  if (accepted_ == (frame.kind == FrameKind::kWelcome)) return "a welcome at the wrong time";
  return "";
}

std::string ExchangeClient::State::begin_answer(const Frame& frame, std::shared_ptr<Call>& call) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(frame.number);
  if (found == calls_.end())
    return fmt::format("an answer to request {}, which waits for none", frame.number);
  Call& waiting = *found->second;
  const bool answer = frame.kind == FrameKind::kAnswer;
  if (frame.payload_bytes > (answer ? waiting.into.size() : 0))
    return fmt::format("{} bytes for request {}, which has room for {}", frame.payload_bytes, frame.number,
                       waiting.into.size());
  if (answer && frame.payload_shared != waiting.into_shared)
    return fmt::format("the payload of request {} is not where it was wanted", frame.number);
  if (waiting.stage == Call::Stage::kWaiting) {
    waiting.stage = Call::Stage::kReceiving;
    call = found->second;
  }
  calls_.erase(found);
  changed_.notify_all();  // one more may be sent
  return "";
}

void ExchangeClient::State::receive(MessageReader& reader, const Frame& frame, Call& call) {
  std::string header(frame.header_bytes, '\0');
  reader.read(std::as_writable_bytes(std::span(header)));
  if (!frame.payload_shared) reader.read(call.into.first(frame.payload_bytes));
  const std::lock_guard lock(mutex_);
  if (frame.kind == FrameKind::kRefusal)
    call.failure.emplace(ErrorCode(frame.code), header);
  else
    call.answer = {std::move(header), frame.payload_bytes};
  call.answered = true;
  call.stage = Call::Stage::kDone;
  changed_.notify_all();
}

bool ExchangeClient::State::ready(const Call& call) const {
  const std::lock_guard lock(mutex_);
  return call.stage == Call::Stage::kDone;
}

bool ExchangeClient::State::ready_within(const Call& call, std::chrono::milliseconds time) {
  Lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return call.stage == Call::Stage::kDone; });
}

Answer ExchangeClient::State::wait(Call& call, std::chrono::milliseconds deadline) {
  Lock lock(mutex_);
  if (!changed_.wait_for(lock, deadline, [&] { return call.stage == Call::Stage::kDone; })) {
    give_up(call, lock);
    throw Error(ErrorCode::kTimeout, fmt::format("the server at {} did not answer within {} ms",
                                                 options_.address.target, deadline.count()));
  }
  if (!call.failure) return std::move(call.answer);
  settle(call, lock);
  throw *call.failure;
}

void ExchangeClient::State::abandon(Call& call) {
  Lock lock(mutex_);
  give_up(call, lock);
}

void ExchangeClient::State::give_up(Call& call, Lock& lock) {
  changed_.wait(lock, [&] { return call.stage != Call::Stage::kReceiving; });  // a copy in progress ends soon
  if (call.stage == Call::Stage::kWaiting) {
    call.stage = Call::Stage::kAbandoned;
    // Still queued: it is removed, and no answer will come.
    const auto queued = std::ranges::find(requests_.begin() + (writing_ ? 1 : 0), requests_.end(),
                                          call.number, &Outgoing::number);
    if (queued != requests_.end()) {
      requests_.erase(queued);
      calls_.erase(call.number);
      changed_.notify_all();
    }
  }
  settle(call, lock);
}

void ExchangeClient::State::settle(Call& call, Lock& lock) {
  // An answer can come before gRPC has released the memory, which it then no longer reads.
  if (!call.loan || call.answered) return;
  lock.unlock();
  const bool over = call.loan->wait_for_end(kLoanGrace);
  lock.lock();
  if (over) return;
  cut();
  cancel();
  lock.unlock();
  DISTBELIEF_INVARIANT(call.loan->wait_for_end(kLoanDeadline) &&
                       "gRPC kept a payload of an ended connection");
  lock.lock();
}

}  // namespace distbelief::comm
