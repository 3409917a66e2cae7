#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/comm/rpc/exchange_client.h"
#include "distbelief/comm/rpc/store.h"

// Peers that misbehave towards a parameter server, each in one way, again and again: for hostile_bench.
namespace distbelief::bench {

inline constexpr std::size_t kHostileElements = 4 * comm::kSliceElements;
inline constexpr std::int64_t kHostileTickets = std::int64_t{1} << 40;
// The job of the honest, which the others have joined too.
comm::SpaceSpec hostile_job();

// Where the server is to be found.
struct Site {
  std::string near{};  // its Unix socket
  std::string far{};   // over TLS
  std::filesystem::path certificates{};
};

// One way to misbehave. It keeps a connection for as long as the server does, if it wants one.
class Peer {
 public:
  Peer(Site site, int replica) : site_(std::move(site)), replica_(replica) {}
  const Site& site() const { return site_; }
  comm::ExchangeClient& connection();
  void forget_connection() { client_.reset(); }
  // Asks, and waits for the answer. Throws Error, as ExchangeClient does.
  void ask(comm::StoreRequest request, std::span<const std::byte> payload);
  std::uint64_t space();

 private:
  Site site_;
  int replica_;
  std::optional<comm::ExchangeClient> client_;
  std::uint64_t space_ = 0;
};

struct Attack {
  enum class Fate { kRefused, kMayBeTaken };  // what is to come of it
  const char* name;
  Fate fate;
  // Once. Throws Error: kBadInput when it was refused, others when it did not come to that.
  std::function<void(Peer&)> commit;
};
const std::vector<Attack>& attacks();

// What they have come to so far; seen by all processes.
struct Offences {
  std::atomic<std::int64_t> refused{0}, taken{0};
};

// Commits it again and again while `attacking`, for good.
[[noreturn]] void misbehave(const Attack& attack, Peer peer, const std::atomic<bool>& attacking,
                            Offences& offences);

}  // namespace distbelief::bench
