#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
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
#include "distbelief/server/service/service.h"
#include "memory_file.h"
#include "targets.h"

namespace distbelief::fuzz {
namespace {

using comm::StoreRequest;

constexpr std::size_t kElements = 48;

// The answer, if there is one already.
struct Reply {
  bool is_refused = false;
  std::string header{}, payload{};
  bool operator==(const Reply&) const = default;
};

// Receives answers without a connection.
class Asker final : public comm::RequestSource {
 public:
  Asker(const std::string& role, std::uint64_t connection) {
    peer_.connection = connection;
    peer_.role = role;
    peer_.name = role == "server" ? server::name_of_server(1) : "fuzz";
  }
  const comm::Peer& peer() const override { return peer_; }
  void send(grpc::ByteBuffer message) override {
    comm::MessageReader reader(message);
    comm::FrameHead head;
    reader.read(head);
    const comm::Frame frame = comm::decode_frame(head);
    Reply reply{.is_refused = frame.kind == comm::FrameKind::kRefusal};
    for (const auto& [part, bytes] :
         {std::pair(&reply.header, frame.header_bytes), std::pair(&reply.payload, frame.payload_bytes)}) {
      part->resize(bytes);
      reader.read(std::as_writable_bytes(std::span(*part)));
    }
    const std::lock_guard lock(mutex_);  // delayed answers arrive on the threads of other requests
    reply_ = std::move(reply);
  }
  void limit_shared(std::size_t) override {}
  Reply reply() const {
    const std::lock_guard lock(mutex_);
    return reply_;
  }

 private:
  comm::Peer peer_;
  mutable std::mutex mutex_;
  Reply reply_;  // the last one
};

// Asynchronous; synchronous; a sub-network whose tickets wait for inputs; with tables; with vectors
// (sandblaster); with a bound of staleness; synchronous with spare lanes.
constexpr const char* kJobs[] = {"async", "sync", "inputs", "tables", "vectors", "bounded", "spare"};
constexpr std::size_t kSyncJob = 1, kInputsJob = 2, kTablesJob = 3, kVectorsJob = 4, kBoundedJob = 5,
                      kSpareJob = 6;
constexpr std::uint32_t kRowWidth = 4;

comm::SpaceSpec spec_of(const std::string& job) {
  const bool is_sync = job == "sync" || job == "spare";
  comm::SpaceSpec spec;
  spec.job = job;
  spec.elements = kElements;
  spec.parameters = {{.begin = 0, .count = 20}, {.begin = 20, .count = 28}};
  spec.lane_values = 3;
  spec.mode = is_sync ? "sync" : job == "vectors" ? "sandblaster" : job == "bounded" ? "bounded" : "async";
  spec.lanes = job == "spare" ? 4 : is_sync ? 2 : 1;
  spec.spare_lanes = job == "spare" ? 1 : 0;
  spec.tickets = is_sync ? 0 : 20;
  spec.compensation = spec.mode == "async" ? 0.1 : 0;
  spec.staleness = job == "bounded" ? 1 : 0;
  spec.staleness_aware = job == "bounded";
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
  return spec;
}

// A server with these jobs, and its peers.
class Site {
 public:
  Site()
      : service_({.id = 0,
                  .memory_limit = std::size_t{1} << 26,
                  .jobs_limit = int(std::size(kJobs)) + 1,
                  .refusals = {.at_once = std::numeric_limits<int>::max()}}) {
    service_.set_map(server::first_map({{.id = 0, .target = "unix:/nowhere/0"}}));
    for (const char* job : kJobs) spaces_.push_back(open(job));
  }
  // Makes another server the primary of all parts.
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
  Reply ask(const std::string& role, std::string header, std::span<const std::byte> payload) {
    return ask(std::make_shared<Asker>(role, role == "server" ? 2 : 1), std::move(header), payload);
  }
  // Values and versions of all jobs, as a read-only peer sees them.
  std::vector<Reply> look() {
    std::vector<Reply> found;
    for (const std::uint64_t space : spaces_)
      found.push_back(ask(
          std::make_shared<Asker>("worker", 3),
          comm::encode(StoreRequest{.kind = StoreRequest::Kind::kPull, .space = space, .replica = kWatcher}),
          {}));
    return found;
  }
  // Sets a valid job number and name, which a fuzzer would hardly guess.
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
  static constexpr std::int32_t kWatcher = comm::kMostReplicas - 1;

  Reply ask(const std::shared_ptr<Asker>& source, std::string header, std::span<const std::byte> payload) {
    auto content = std::make_unique<comm::ExchangeServer::Request::Content>();
    content->source = source;
    content->pool = pool_;
    content->header = std::move(header);
    content->frame.payload_bytes = std::uint32_t(payload.size());
    content->frame.room_bytes = kElements * sizeof(float);
    content->payload = pool_->take();
    if (!payload.empty()) std::memcpy(content->payload.data(), payload.data(), payload.size());
    service_.handle(comm::ExchangeServer::Request(std::move(content)));
    return source->reply();
  }
  // Uses its own connection, so that another connection may speak for any replica.
  std::uint64_t open(const std::string& job) {
    const auto opener = std::make_shared<Asker>("worker", 4);
    const std::string text = comm::encode(spec_of(job));
    const comm::StoreAnswer answer =
        comm::decode_answer(ask(opener, comm::encode(StoreRequest{.kind = StoreRequest::Kind::kOpen}),
                                std::as_bytes(std::span(text)))
                                .header);
    const std::vector<float> ones(kElements, 1);
    ask(opener, comm::encode(StoreRequest{.kind = StoreRequest::Kind::kFill, .space = answer.space}),
        std::as_bytes(std::span(ones)));
    return answer.space;
  }

  std::shared_ptr<comm::BufferPool> pool_ = std::make_shared<comm::BufferPool>();
  std::vector<std::uint64_t> spaces_;
  server::Service service_;
};

// Ids in the required order, then numbers.
std::vector<std::byte> sound_rows() {
  std::vector<std::uint64_t> ids{1, 2, 3, 5, 8, 13};
  std::ranges::sort(ids, {}, [](std::uint64_t id) { return std::pair(compute::part_of_row(id), id); });
  const std::vector<float> numbers(ids.size() * kRowWidth, 0.5F);
  std::vector<std::byte> bytes;
  for (const auto part : {std::as_bytes(std::span(ids)), std::as_bytes(std::span(numbers))})
    bytes.insert(bytes.end(), part.begin(), part.end());
  return bytes;
}

// Reads the input from beginning to end.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> left) : left_(left) {}
  bool empty() const { return left_.empty(); }
  std::uint8_t one() {
    const std::uint8_t value = left_.front();
    left_ = left_.subspan(1);
    return value;
  }
  std::span<const std::uint8_t> some() {  // as many as the next byte says, or the rest
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

// An accepted frame stays inside the message and the shared memory.
void frame(std::span<const std::uint8_t> input) {
  if (input.size() < comm::kFrameBytes + sizeof(std::uint32_t)) return;
  comm::FrameHead head;
  std::memcpy(head.data(), input.data(), head.size());
  std::uint32_t shared = 0;  // taken from the end; the rest is the message
  const std::size_t message_bytes = input.size() - sizeof shared;
  std::memcpy(&shared, input.data() + message_bytes, sizeof shared);
  const comm::Frame found = comm::decode_frame(head);
  DISTBELIEF_INVARIANT(found.unused != 0 || comm::encode_frame(found) == head);
  for (const comm::FrameSender sender : {comm::FrameSender::kClient, comm::FrameSender::kServer}) {
    const comm::FrameLimits limits{.sender = sender, .message_bytes = message_bytes, .shared_bytes = shared};
    if (!comm::check_frame(found, limits).empty()) continue;
    const std::uint64_t inline_bytes = found.payload_shared ? 0 : found.payload_bytes;
    DISTBELIEF_INVARIANT(comm::kFrameBytes + found.header_bytes + inline_bytes == message_bytes);
    if (sender == comm::FrameSender::kServer) continue;  // its places are those of the request
    DISTBELIEF_INVARIANT(!found.payload_shared ||
                         (found.payload_at <= shared && found.payload_bytes <= shared - found.payload_at));
    DISTBELIEF_INVARIANT(!found.room_shared ||
                         (found.room_at <= shared && found.room_bytes <= shared - found.room_at));
  }
}

// Messages between replicas and servers survive a round trip.
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

// Messages one after the other: a byte of flags, the header, and a payload unless the flags ask for a valid
// one. A refused message must leave values and versions of all jobs unchanged.
void service(std::span<const std::uint8_t> input) {
  enum Flags : unsigned {
    kServer = 1,
    kSynchronous = 2,  // with kInputs: the bounded job; with kTables: the job with spare lanes
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
  std::vector<Reply> known = site.look();
  for (int i = 0; i < kMostMessages && !bytes.empty(); ++i) {
    const unsigned flags = bytes.one();
    if ((flags & kEvent) != 0) {
      (flags & kServer) != 0 ? site.become_backup() : site.end_connections();
      known = site.look();
      continue;
    }
    const auto header = bytes.some();
    std::string text(reinterpret_cast<const char*>(header.data()), header.size());
    const bool second = (flags & kSynchronous) != 0;
    const std::size_t job = (flags & kVectors) != 0  ? kVectorsJob
                            : (flags & kTables) != 0 ? (second ? kSpareJob : kTablesJob)
                            : (flags & kInputs) != 0 ? (second ? kBoundedJob : kInputsJob)
                            : second                 ? kSyncJob
                                                     : 0;
    if ((flags & kPutRight) != 0) text = site.put_right(text, job);
    const std::span<const std::byte> payload = (flags & kSoundPayload) == 0 ? std::as_bytes(bytes.some())
                                               : job == kTablesJob          ? std::span<const std::byte>(rows)
                                                                            : std::as_bytes(std::span(sound));
    const Reply reply = site.ask((flags & kServer) != 0 ? "server" : "worker", text, payload);
    std::vector<Reply> found = site.look();
    DISTBELIEF_INVARIANT(!reply.is_refused || found == known);
    known = std::move(found);
  }
}

}  // namespace distbelief::fuzz
