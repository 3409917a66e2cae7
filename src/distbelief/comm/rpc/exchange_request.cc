#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "distbelief/comm/rpc/exchange_connection.h"
#include "distbelief/comm/rpc/exchange_server.h"

namespace distbelief::comm {
namespace {

// The answer's head; a refusal's text is its header.
Frame answer_frame(const Frame& request, FrameKind kind, std::size_t header_bytes) {
  return {.kind = kind, .header_bytes = std::uint32_t(header_bytes), .number = request.number};
}

}  // namespace

ExchangeServer::Request::Request(std::unique_ptr<Content> content) : content_(std::move(content)) {}
ExchangeServer::Request::Request(Request&& other) noexcept = default;

ExchangeServer::Request& ExchangeServer::Request::operator=(Request&& other) noexcept {
  std::swap(content_, other.content_);
  return *this;
}

ExchangeServer::Request::~Request() {
  if (content_) refuse(ErrorCode::kInternal, "the server dropped the request");
}

const std::string& ExchangeServer::Request::header() const { return content_->header; }

std::span<const std::byte> ExchangeServer::Request::payload() const {
  const Frame& frame = content_->frame;
  if (frame.payload_shared) return content_->memory->bytes().subspan(frame.payload_at, frame.payload_bytes);
  return {content_->payload.data(), frame.payload_bytes};
}

void ExchangeServer::Request::own_payload() {
  Frame& frame = content_->frame;
  if (!frame.payload_shared) return;
  const std::span<const std::byte> shared = payload();
  content_->payload = content_->pool->take();
  std::memcpy(content_->payload.data(), shared.data(), shared.size());
  frame.payload_shared = false;
}

void ExchangeServer::Request::drop_payload() {
  content_->payload = {};
  content_->frame.payload_shared = false;
  content_->frame.payload_bytes = 0;
}

const Peer& ExchangeServer::Request::peer() const { return content_->source->peer(); }

void ExchangeServer::Request::limit_shared(std::size_t bytes) { content_->source->limit_shared(bytes); }

std::size_t ExchangeServer::Request::room() const { return content_->frame.room_bytes; }

std::span<std::byte> ExchangeServer::Request::reserve(std::size_t bytes) {
  const Frame& frame = content_->frame;
  if (bytes > frame.room_bytes)
    throw Error(ErrorCode::kBadInput, fmt::format("an answer of {} bytes, but the client has room for {}",
                                                  bytes, frame.room_bytes));
  content_->reserved_bytes = bytes;
  if (frame.room_shared) return content_->memory->bytes().subspan(frame.room_at, bytes);
  if (content_->reserved.data() == nullptr) content_->reserved = content_->pool->take();
  return {content_->reserved.data(), bytes};
}

void ExchangeServer::Request::answer(std::string header) {
  if (header.size() > kMaxHeaderBytes)
    return refuse(ErrorCode::kInternal,
                  fmt::format("the server's answer has a header of {} bytes", header.size()));
  const std::unique_ptr<Content> content = std::move(content_);
  Frame frame = answer_frame(content->frame, FrameKind::kAnswer, header.size());
  frame.payload_shared = content->frame.room_shared;
  frame.payload_bytes = std::uint32_t(content->reserved_bytes);
  if (frame.payload_shared || frame.payload_bytes == 0)
    return content->source->send(make_message(frame, header, std::span<const std::byte>{}));
  const grpc::Slice payload = hand_over(std::move(content->reserved), content->reserved_bytes);
  content->source->send(make_message(frame, header, &payload));
}

void ExchangeServer::Request::refuse(ErrorCode code, const std::string& why) {
  const std::unique_ptr<Content> content = std::move(content_);
  const std::string text = why.substr(0, kMaxHeaderBytes);
  Frame frame = answer_frame(content->frame, FrameKind::kRefusal, text.size());
  frame.code = std::uint8_t(code);
  content->source->send(make_message(frame, text, std::span<const std::byte>{}));
}

}  // namespace distbelief::comm
