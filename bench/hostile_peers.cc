#include "hostile_peers.h"

#include <limits>
#include <thread>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/testing/test_raw_client.h"

namespace distbelief::bench {
namespace {

using namespace std::chrono_literals;
using comm::StoreRequest;
using Fate = Attack::Fate;
using Kind = comm::StoreRequest::Kind;

constexpr std::size_t kOversizedBytes = 64 << 20;

std::vector<float> gradient(std::size_t elements, float last) {
  std::vector<float> values(elements, 0.1F);
  values.back() = last;
  return values;
}

StoreRequest push_of(std::int64_t ticket, std::int64_t slice = 0) {
  return {.kind = Kind::kPush, .slice = slice, .ticket = ticket, .lr = 0.1};
}

void push(Peer& peer, const StoreRequest& request, const std::vector<float>& values) {
  peer.ask(request, std::as_bytes(std::span(values)));
}

// Says something to a server that is to end the connection for it.
void say_and_be_dropped(Peer& peer, const std::function<void(testing::RawClient&)>& offence) {
  testing::RawClient client(testing::plain_channel(peer.site().near), testing::Reading::kAll);
  if (!client.greet() || !client.hears()) throw Error(ErrorCode::kUnavailable, "was not welcomed");
  offence(client);
  if (const grpc::Status status = client.ended(); !status.ok())
    throw Error(ErrorCode::kBadInput, status.error_message());
}

comm::Frame request_frame(std::uint64_t number, std::size_t header_bytes, std::size_t payload_bytes) {
  return {.kind = comm::FrameKind::kRequest,
          .header_bytes = std::uint32_t(header_bytes),
          .payload_bytes = std::uint32_t(payload_bytes),
          .number = number};
}

void send_oversized(Peer& peer) {
  static const std::string kBytes(kOversizedBytes, 'x');
  say_and_be_dropped(
      peer, [](testing::RawClient& client) { client.say(request_frame(1, 0, kBytes.size()), kBytes); });
}

void replay(Peer& peer) {
  say_and_be_dropped(peer, [](testing::RawClient& client) {
    const std::string header = comm::encode(StoreRequest{.kind = Kind::kMap});
    for (int i = 0; i < 2; ++i) client.say(request_frame(1, header.size(), 0), header);
  });
}

void come_without_certificate(Peer& peer) {
  grpc::SslCredentialsOptions bare;
  bare.pem_root_certs = read_text(peer.site().certificates / "ca.pem");
  testing::RawClient client(testing::channel_with(peer.site().far, grpc::SslCredentials(bare)),
                            testing::Reading::kAll);
  if (!client.greet() || !client.hears()) throw Error(ErrorCode::kBadInput, client.ended().error_message());
}

void come_in_another_role(Peer& peer) {
  comm::ExchangeClient(
      {.address = comm::secure_address(peer.site().far, peer.site().certificates, "operator"),
       .role = "worker",
       .name = "mallory"});
}

void connect_and_leave(Peer& peer) {
  peer.forget_connection();
  peer.connection();
  std::this_thread::sleep_for(10ms);
}

}  // namespace

comm::SpaceSpec hostile_job() {
  comm::SpaceSpec spec{.job = "honest",
                       .elements = kHostileElements,
                       .parameters = {{.begin = 0, .count = kHostileElements}},
                       .mode = "async",
                       .tickets = kHostileTickets};
  spec.optimizer.momentum = 0;
  return spec;
}

comm::ExchangeClient& Peer::connection() {
  if (!client_)
    client_.emplace(comm::ExchangeClient::Options{.address = {.target = site_.near}, .name = "mallory"});
  return *client_;
}

std::uint64_t Peer::space() {
  if (space_ != 0) return space_;
  const std::string text = comm::encode(hostile_job());
  const comm::Answer answer =
      connection()
          .send(comm::encode(StoreRequest{.kind = Kind::kOpen, .replica = replica_, .incarnation = 1}),
                std::as_bytes(std::span(text)), {})
          .wait(20s);
  return space_ = comm::decode_answer(answer.header).space;
}

void Peer::ask(StoreRequest request, std::span<const std::byte> payload) {
  request.space = space();
  request.replica = replica_;
  request.incarnation = 1;
  connection().send(comm::encode(request), payload, {}).wait(20s);
}

const std::vector<Attack>& attacks() {
  static const std::vector<float> kGood = gradient(comm::kSliceElements, 0.1F), kShort = gradient(100, 0.1F),
                                  kNotFinite =
                                      gradient(comm::kSliceElements, std::numeric_limits<float>::quiet_NaN());
  static const std::vector<Attack> kAttacks{
      {"NaN", Fate::kRefused, [](Peer& peer) { push(peer, push_of(1), kNotFinite); }},
      {"unknown ticket", Fate::kRefused, [](Peer& peer) { push(peer, push_of(kHostileTickets), kGood); }},
      {"unknown slice", Fate::kRefused, [](Peer& peer) { push(peer, push_of(1, 999), kGood); }},
      {"wrong shape", Fate::kRefused, [](Peer& peer) { push(peer, push_of(1), kShort); }},
      {"done ticket again", Fate::kMayBeTaken, [](Peer& peer) { push(peer, push_of(0), kGood); }},
      {"first values again", Fate::kMayBeTaken, [](Peer& peer) { push(peer, {.kind = Kind::kFill}, kGood); }},
      {"noise", Fate::kRefused,
       [](Peer& peer) { peer.connection().send(std::string(2000, '\xa7'), {}, {}).wait(20s); }},
      {"64 MiB message", Fate::kRefused, send_oversized},
      {"replayed number", Fate::kRefused, replay},
      {"no certificate", Fate::kRefused, come_without_certificate},
      {"wrong role", Fate::kRefused, come_in_another_role},
      {"connects and leaves", Fate::kMayBeTaken, connect_and_leave},
  };
  return kAttacks;
}

void misbehave(const Attack& attack, Peer peer, const std::atomic<bool>& attacking, Offences& offences) {
  for (;;) {
    while (!attacking) std::this_thread::sleep_for(1ms);
    try {
      attack.commit(peer);
      ++offences.taken;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kBadInput) {
        ++offences.refused;
        continue;
      }
      peer.forget_connection();
      std::this_thread::sleep_for(1ms);
    }
  }
}

}  // namespace distbelief::bench
