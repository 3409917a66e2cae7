#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange_bytes.h"
#include "distbelief/comm/rpc/exchange_connection.h"
#include "distbelief/comm/rpc/exchange_frame.h"
#include "distbelief/comm/rpc/store.h"
#include "distbelief/compute/lbfgs.h"
#include "distbelief/compute/row_values.h"
#include "distbelief/server/service.h"
#include "memory_file.h"
#include "targets.h"

namespace distbelief::fuzz {
namespace {

using comm::StoreRequest;

constexpr std::size_t kElements = 48;

// Takes answers without a connection.
class Asker final : public comm::RequestSource {
 public:
  Asker(const std::string& role, std::uint64_t connection) {
    peer_.connection = connection;
    peer_.role = role;
    peer_.name = "fuzz";
  }
  const comm::Peer& peer() const override { return peer_; }
  void send(grpc::ByteBuffer message) override {
    comm::MessageReader reader(message);
    comm::FrameHead head;
    reader.read(head);
    const comm::Frame frame = comm::decode_frame(head);
    header_.resize(frame.header_bytes);
    reader.read(std::as_writable_bytes(std::span(header_)));
  }
  const std::string& header() const { return header_; }

 private:
  comm::Peer peer_;
  std::string header_;  // of the last answer
};

// Asynchronous, synchronous, a sub-network whose tickets wait for inputs, one with tables, and one with
// vectors (sandblaster).
constexpr const char* kJobs[] = {"async", "sync", "inputs", "tables", "vectors"};
constexpr std::size_t kInputsJob = 2, kTablesJob = 3, kVectorsJob = 4;
constexpr std::uint32_t kRowWidth = 4;

// A server with these jobs, and peers that ask it.
class Site {
 public:
  Site() : service_({.id = 0, .memory_limit = std::size_t{1} << 26, .jobs_limit = 6}) {
    service_.set_map(server::first_map({{.id = 0, .target = "unix:/nowhere/0"}}));
    for (const char* job : kJobs) spaces_.push_back(open(job));
  }
  // From now on another server is the primary of everything.
  void become_backup() {
    const server::ServerMap::Part part{.primary = 1, .backup = 0};
    service_.set_map(
        {.epoch = 2,
         .servers = {{.id = 0, .target = "unix:/nowhere/0"}, {.id = 1, .target = "unix:/nowhere/1"}},
         .parts = std::vector<server::ServerMap::Part>(server::kParts, part)});
  }
  void end_connections() {
    for (const std::uint64_t connection : {1, 2}) service_.gone(connection);
  }
  std::string ask(const std::string& role, std::string header, std::span<const std::byte> payload) {
    const auto source = std::make_shared<Asker>(role, role == "server" ? 2 : 1);
    auto content = std::make_unique<comm::ExchangeServer::Request::Content>();
    content->source = source;
    content->pool = pool_;
    content->header = std::move(header);
    content->frame.payload_bytes = std::uint32_t(payload.size());
    content->frame.room_bytes = kElements * sizeof(float);
    content->payload = pool_->take();
    if (!payload.empty()) std::memcpy(content->payload.data(), payload.data(), payload.size());
    service_.handle(comm::ExchangeServer::Request(std::move(content)));
    return source->header();
  }
  // Numbers of spaces cannot be guessed, names of jobs hardly.
  std::string put_right(const std::string& header, std::size_t job) const {
    try {
      StoreRequest message = comm::decode_request(header);
      message.space = spaces_[job];
      message.job = kJobs[job];
      return comm::encode(message);
    } catch (const Error&) {
      return header;
    }
  }

 private:
  std::uint64_t open(const std::string& job) {
    const std::string mode = job == "sync" ? "sync" : job == "vectors" ? "sandblaster" : "async";
    comm::SpaceSpec spec;
    spec.job = job;
    spec.elements = kElements;
    spec.parameters = {{.begin = 0, .count = 20}, {.begin = 20, .count = 28}};
    spec.lane_values = 3;
    spec.mode = mode;
    spec.lanes = mode == "sync" ? 2 : 1;
    spec.tickets = mode == "sync" ? 0 : 20;
    spec.compensation = mode == "async" ? 0.1 : 0;
    if (job == "inputs") {
      spec.sub_network = 2;
      spec.input_bytes = kElements * sizeof(float);
      spec.window = 2;
    }
    if (job == "tables")
      spec.tables = {{.name = "free", .width = kRowWidth, .scale = 0.1},
                     {.name = "bounded", .width = kRowWidth, .scale = 0.1, .most_rows = 64}};
    if (job == "vectors") {
      spec.portions = 2;
      spec.vectors = std::int64_t(compute::lbfgs_vectors(1));
    }
    const std::string text = comm::encode(spec);
    const comm::StoreAnswer answer =
        comm::decode_answer(ask("worker", comm::encode(StoreRequest{.kind = StoreRequest::Kind::kOpen}),
                                std::as_bytes(std::span(text))));
    const std::vector<float> ones(kElements, 1);
    ask("worker", comm::encode(StoreRequest{.kind = StoreRequest::Kind::kFill, .space = answer.space}),
        std::as_bytes(std::span(ones)));
    return answer.space;
  }

  std::shared_ptr<comm::BufferPool> pool_ = std::make_shared<comm::BufferPool>();
  std::vector<std::uint64_t> spaces_;
  server::Service service_;
};

// Ids in their order, and numbers.
std::vector<std::byte> sound_rows() {
  std::vector<std::uint64_t> ids{1, 2, 3, 5, 8, 13};
  std::ranges::sort(ids, {}, [](std::uint64_t id) { return std::pair(compute::part_of_row(id), id); });
  const std::vector<float> numbers(ids.size() * kRowWidth, 0.5F);
  std::vector<std::byte> bytes;
  for (const auto part : {std::as_bytes(std::span(ids)), std::as_bytes(std::span(numbers))})
    bytes.insert(bytes.end(), part.begin(), part.end());
  return bytes;
}

// Reads the input from its beginning to its end.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> left) : left_(left) {}
  bool empty() const { return left_.empty(); }
  std::uint8_t one() {
    const std::uint8_t value = left_.front();
    left_ = left_.subspan(1);
    return value;
  }
  std::span<const std::uint8_t> some() {  // as many as the next byte says, or what is left
    if (empty()) return {};
    const std::size_t count = one();
    const auto found = left_.first(std::min(count, left_.size()));
    left_ = left_.subspan(found.size());
    return found;
  }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace

// What passes stays inside the message and the shared memory.
void frame(std::span<const std::uint8_t> input) {
  if (input.size() < comm::kFrameBytes + sizeof(std::uint32_t)) return;
  comm::FrameHead head;
  std::memcpy(head.data(), input.data(), head.size());
  std::uint32_t shared = 0;  // at the end; the rest is the message
  const std::size_t message_bytes = input.size() - sizeof shared;
  std::memcpy(&shared, input.data() + message_bytes, sizeof shared);
  const comm::Frame found = comm::decode_frame(head);
  DISTBELIEF_INVARIANT(found.unused != 0 || comm::encode_frame(found) == head);
  for (const comm::FrameSender sender : {comm::FrameSender::kClient, comm::FrameSender::kServer}) {
    const comm::FrameLimits limits{.sender = sender, .message_bytes = message_bytes, .shared_bytes = shared};
    if (!comm::check_frame(found, limits).empty()) continue;
    const std::uint64_t inline_bytes = found.payload_shared ? 0 : found.payload_bytes;
    DISTBELIEF_INVARIANT(comm::kFrameBytes + found.header_bytes + inline_bytes == message_bytes);
    if (sender == comm::FrameSender::kServer) continue;  // its places are the request's
    DISTBELIEF_INVARIANT(!found.payload_shared ||
                         (found.payload_at <= shared && found.payload_bytes <= shared - found.payload_at));
    DISTBELIEF_INVARIANT(!found.room_shared ||
                         (found.room_at <= shared && found.room_bytes <= shared - found.room_at));
  }
}

// What is said between replicas and servers comes back the same.
void store(std::span<const std::uint8_t> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  parse_or_refuse([&] {
    const StoreRequest request = comm::decode_request(text);
    DISTBELIEF_INVARIANT(comm::decode_request(comm::encode(request)) == request);
  });
  parse_or_refuse([&] {
    const comm::SpaceSpec spec = comm::decode_space(text);
    DISTBELIEF_INVARIANT(comm::decode_space(comm::encode(spec)) == spec);
    server::require_sound(spec);
  });
  parse_or_refuse([&] { comm::decode_answer(text); });
  parse_or_refuse([&] {
    const server::ServerMap map = server::map_from_text(std::string(text));
    DISTBELIEF_INVARIANT(server::map_from_text(server::to_text(map)) == map);
  });
}

// Messages one after another: a byte of flags, the header, and a payload unless the flags say that it is a
// sound one.
void service(std::span<const std::uint8_t> input) {
  enum Flags : unsigned {
    kServer = 1,
    kSynchronous = 2,
    kPutRight = 4,
    kSoundPayload = 8,
    kEvent = 16,
    kInputs = 32,
    kTables = 64,
    kVectors = 128
  };
  spdlog::set_level(spdlog::level::off);
  constexpr int kMostMessages = 64;
  Site site;
  Bytes bytes(input);
  const std::vector<float> sound(kElements, 0.5F);
  const std::vector<std::byte> rows = sound_rows();
  for (int i = 0; i < kMostMessages && !bytes.empty(); ++i) {
    const unsigned flags = bytes.one();
    if ((flags & kEvent) != 0) {
      (flags & kServer) != 0 ? site.become_backup() : site.end_connections();
      continue;
    }
    const auto header = bytes.some();
    std::string text(reinterpret_cast<const char*>(header.data()), header.size());
    const std::size_t job = (flags & kVectors) != 0  ? kVectorsJob
                            : (flags & kTables) != 0 ? kTablesJob
                            : (flags & kInputs) != 0 ? kInputsJob
                                                     : std::size_t((flags & kSynchronous) != 0);
    if ((flags & kPutRight) != 0) text = site.put_right(text, job);
    const std::span<const std::byte> payload = (flags & kSoundPayload) == 0 ? std::as_bytes(bytes.some())
                                               : job == kTablesJob          ? std::span<const std::byte>(rows)
                                                                            : std::as_bytes(std::span(sound));
    site.ask((flags & kServer) != 0 ? "server" : "worker", text, payload);
  }
}

}  // namespace distbelief::fuzz
