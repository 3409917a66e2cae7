#include "distbelief/cluster/own_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "distbelief/base/error.h"

namespace distbelief::cluster {
namespace {

constexpr const char* kAnyPort = "9";  // nothing is sent

std::string numeric(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text.data();
}

// Connecting a datagram socket sends nothing, but selects the route and with it the local address.
std::string own_end(const addrinfo& peer) {
  const int way = socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (way < 0) return "";
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  auto* place = reinterpret_cast<sockaddr*>(&own);
  const bool known =
      connect(way, peer.ai_addr, peer.ai_addrlen) == 0 && getsockname(way, place, &length) == 0;
  close(way);
  return known ? numeric(place, length) : "";
}

struct Freed {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

std::unique_ptr<addrinfo, Freed> look_up(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (const int failure = getaddrinfo(host.c_str(), kAnyPort, &wanted, &list); failure != 0)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("the name of host {} is not known here: {}", host, gai_strerror(failure)));
  return std::unique_ptr<addrinfo, Freed>(list);
}

}  // namespace

std::string host_address(const std::string& host) {
  const auto list = look_up(host);
  return numeric(list->ai_addr, list->ai_addrlen);
}

std::string own_address(const std::vector<HostSlots>& hosts) {
  std::string local = "127.0.0.1";
  for (const HostSlots& host : hosts) {
    const auto list = look_up(host.host);
    const std::string own = own_end(*list);
    const std::string peer = numeric(list->ai_addr, list->ai_addrlen);
    if (own.empty() || own == peer || own.starts_with("127.")) {  // this machine itself
      if (!own.empty() && !own.starts_with("127.")) local = own;
      continue;
    }
    return own;
  }
  return local;
}

}  // namespace distbelief::cluster
