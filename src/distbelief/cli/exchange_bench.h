#pragma once

#include <atomic>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// Measures the speed of transfers to and from parameter servers: `distbelief bench exchange`. Without torch.
namespace distbelief::cli {

struct ExchangeBenchOptions {
  std::size_t floats = 10'000'000;  // size of the array over all servers
  int repeats = 21;
  std::string certificates{};  // folder of `distbelief certs`; for "host:port"
  // For servers: the addresses of all servers that share the array, the same list at each; empty: each server
  // has an array of its own.
  std::vector<std::string> map{};
  int copies = 1;      // of each slice; 2: a push is acknowledged once the other server has it too
  std::string logs{};  // folder for the logs of updates; empty: no logs
};

// Runs parameter servers at these addresses ("unix:/path", "host:port") and prints their actual targets, one
// per line. Returns when interrupted. Throws Error(kBadInput) for an address that is not in the map.
void serve_arrays(const std::vector<std::string>& addresses, const ExchangeBenchOptions& options,
                  const std::atomic<bool>& interrupted);

// Measures push and pull of the array between one client and the servers at `targets`, which share one map.
// Returns rows.
nlohmann::json bench_servers(const std::vector<std::string>& targets, const ExchangeBenchOptions& options);

// Measures push and pull on this host between this process and one server process, alternating between shared
// memory, a Unix socket, mutual TLS, and memcpy of the same size. Starts `program` as the server, which logs
// its updates.
nlohmann::json bench_one_host(const std::string& program, const ExchangeBenchOptions& options);

}  // namespace distbelief::cli
