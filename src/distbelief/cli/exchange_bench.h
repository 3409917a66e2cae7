#pragma once

#include <atomic>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// How fast parameter servers take and give arrays: `distbelief bench exchange`. Without torch.
namespace distbelief::cli {

struct ExchangeBenchOptions {
  std::size_t floats = 10'000'000;  // of the array, over all servers
  int repeats = 21;
  std::string certificates{};  // folder of `distbelief certs`; for "host:port"
  // Of servers: the addresses of all that share out the array between them, the same at each; empty: each has
  // one of its own.
  std::vector<std::string> map{};
  int copies = 1;      // of each slice; 2: a push is answered when the other server has it too
  std::string logs{};  // folder for the logs of updates; empty: none are kept
};

// Parameter servers at these addresses ("unix:/path", "host:port"), whose real targets are printed, a line
// each, until interrupted. Throws Error(kBadInput) for an address that is not in the map.
void serve_arrays(const std::vector<std::string>& addresses, const ExchangeBenchOptions& options,
                  const std::atomic<bool>& interrupted);

// Push and pull of the array by one client of the servers at `targets`, which have one map: rows.
nlohmann::json bench_servers(const std::vector<std::string>& targets, const ExchangeBenchOptions& options);

// Push and pull on this host, one server process and this one, in turns: shared memory, Unix socket, mutual
// TLS, and memcpy of the same size. `program` is started as the server, which logs its updates.
nlohmann::json bench_one_host(const std::string& program, const ExchangeBenchOptions& options);

}  // namespace distbelief::cli
