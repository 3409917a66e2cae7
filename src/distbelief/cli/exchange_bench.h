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
};

// Parameter servers at these addresses ("unix:/path", "host:port"), whose real targets are printed, a line each,
// until interrupted.
void serve_arrays(const std::vector<std::string>& addresses, const ExchangeBenchOptions& options,
                  const std::atomic<bool>& interrupted);

// Push and pull of the array, cut evenly over the servers at `targets`: a row.
nlohmann::json bench_servers(const std::vector<std::string>& targets, const ExchangeBenchOptions& options);

// Push and pull on this host, one server process and this one, in turns: shared memory, Unix socket, mutual
// TLS, and memcpy of the same size. `program` is started as the server.
nlohmann::json bench_one_host(const std::string& program, const ExchangeBenchOptions& options);

}  // namespace distbelief::cli
