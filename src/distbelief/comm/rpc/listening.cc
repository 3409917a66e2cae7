#include "distbelief/comm/rpc/listening.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/transport.h"

namespace distbelief::comm {
namespace {

constexpr const char* kSameHost = "unix";

[[noreturn]] void cannot_listen(const ControlAddress& address, const std::string& why) {
  throw Error(
      ErrorCode::kUnavailable,
      fmt::format("address {}: cannot listen there: {}; is the address this host's, the port free, the "
                  "folder writable?",
                  address.target, why));
}

void switch_option(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

// Returns the listening socket; -1, with errno set, on failure.
int listen_on(const sockaddr* name, socklen_t bytes) {
  const int made = socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return made;
  if (name->sa_family != AF_UNIX) {
    switch_option(made, SOL_SOCKET, SO_REUSEADDR, 1);
    switch_option(made, IPPROTO_TCP, TCP_NODELAY, 1);  // accepted connections inherit it
  }
  if (name->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(name);
    switch_option(made, IPPROTO_IPV6, IPV6_V6ONLY, IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr) ? 0 : 1);
  }
  const bool is_bound = bind(made, name, bytes) == 0;
  if (is_bound && name->sa_family == AF_UNIX)
    chmod(reinterpret_cast<const sockaddr_un*>(name)->sun_path, S_IRUSR | S_IWUSR);
  if (is_bound && listen(made, SOMAXCONN) == 0) return made;
  const int error = errno;
  ::close(made);
  errno = error;
  return -1;
}

int listen_on_path(const ControlAddress& address) {
  const std::string path = socket_path(address);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  unlink(path.c_str());  // left by a process that is gone
  const int made = listen_on(reinterpret_cast<const sockaddr*>(&name), sizeof name);
  if (made < 0) cannot_listen(address, std::strerror(errno));
  return made;
}

struct FreeAddresses {
  void operator()(addrinfo* first) const { freeaddrinfo(first); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses resolve(const std::string& host, const std::string& port) {
  const addrinfo hints{.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                       .ai_family = AF_UNSPEC,
                       .ai_socktype = SOCK_STREAM,
                       .ai_protocol = 0,
                       .ai_addrlen = 0,
                       .ai_addr = nullptr,
                       .ai_canonname = nullptr,
                       .ai_next = nullptr};
  addrinfo* found = nullptr;
  return Addresses(getaddrinfo(host.c_str(), port.c_str(), &hints, &found) == 0 ? found : nullptr);
}

in_port_t port_of(int socket) {
  sockaddr_storage name{};
  socklen_t bytes = sizeof name;
  getsockname(socket, reinterpret_cast<sockaddr*>(&name), &bytes);
  return name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port
                                    : reinterpret_cast<sockaddr_in*>(&name)->sin_port;
}

void set_port(sockaddr* name, in_port_t port) {
  if (name->sa_family == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(name)->sin6_port = port;
  else
    reinterpret_cast<sockaddr_in*>(name)->sin_port = port;
}

// A host's names may resolve to the same address.
bool is_repeated(const addrinfo* first, const addrinfo* one) {
  for (const addrinfo* other = first; other != one; other = other->ai_next)
    if (other->ai_addrlen == one->ai_addrlen &&
        std::memcmp(other->ai_addr, one->ai_addr, one->ai_addrlen) == 0)
      return true;
  return false;
}

// Listens on all addresses, on one port; skips families that this host lacks.
std::vector<int> listen_on_all(addrinfo* first, bool takes_free_port) {
  std::vector<int> made;
  for (addrinfo* one = first; one != nullptr; one = one->ai_next) {
    if (takes_free_port && !made.empty()) set_port(one->ai_addr, port_of(made[0]));
    if (is_repeated(first, one)) continue;
    const int socket = listen_on(one->ai_addr, one->ai_addrlen);
    if (socket >= 0) made.push_back(socket);
    const bool is_taken = socket < 0 && errno == EADDRINUSE && !takes_free_port;
    if (!is_taken) continue;
    for (const int other : made) ::close(other);
    errno = EADDRINUSE;
    return {};
  }
  return made;
}

}  // namespace

std::vector<int> listen_at(const ControlAddress& address, std::string& target) {
  target = address.target;
  if (is_on_this_host(address)) {
    check_socket_path(address);
    refuse_taken(address);
    return {listen_on_path(address)};
  }
  const std::size_t colon = target.rfind(':');
  if (colon == std::string::npos)
    throw Error(ErrorCode::kBadInput,
                fmt::format("address {}: wanted unix:/path or host:port, found no port", target));
  std::string host = target.substr(0, colon);
  const std::string port = target.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  std::vector<int> made;
  // On all addresses of both families, or of IPv4 alone where there is no IPv6.
  if (host == "0.0.0.0") made = listen_on_all(resolve("::", port).get(), port == "0");
  if (made.empty()) {
    const Addresses found = resolve(host, port);
    if (!found) cannot_listen(address, "the host or the port is none");
    made = listen_on_all(found.get(), port == "0");
  }
  if (made.empty()) cannot_listen(address, std::strerror(errno));
  target = fmt::format("{}:{}", target.substr(0, colon), ntohs(port_of(made[0])));
  return made;
}

std::string source_of(int socket) {
  sockaddr_storage name{};
  socklen_t bytes = sizeof name;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&name), &bytes) != 0) return "";
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (name.ss_family == AF_INET)
    return inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(&name)->sin_addr, text.data(), text.size());
  if (name.ss_family != AF_INET6) return kSameHost;
  const in6_addr& six = reinterpret_cast<sockaddr_in6*>(&name)->sin6_addr;
  constexpr std::size_t kOldAt = 12;  // the IPv4 part of a mapped IPv6 address
  if (IN6_IS_ADDR_V4MAPPED(&six)) return inet_ntop(AF_INET, six.s6_addr + kOldAt, text.data(), text.size());
  return inet_ntop(AF_INET6, &six, text.data(), text.size());
}

// "unix:", "ipv4:127.0.0.1:4711", "ipv6:[::1]:4711", "ipv6:%5Bfe80::1%25eth0%5D:4711".
std::string source_of(const std::string& peer) {
  const std::size_t begin = peer.find(':'), end = peer.rfind(':');
  if (peer.starts_with("unix") || begin >= end) return kSameHost;
  std::string host = peer.substr(begin + 1, end - begin - 1);
  for (const std::string_view opening : {"[", "%5B"})
    if (host.starts_with(opening)) host = host.substr(opening.size());
  return host.substr(0, host.find_first_of("]%"));
}

}  // namespace distbelief::comm
