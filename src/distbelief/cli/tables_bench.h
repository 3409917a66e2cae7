#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

// Measures the speed of row updates on a parameter server: `distbelief bench tables`. Without torch.
namespace distbelief::cli {

struct TablesBenchOptions {
  std::uint64_t rows = 10'000'000;
  std::uint32_t width = 64;
  std::size_t request_rows = 3840;  // rows per message
  int clients = 2;                  // threads of this process, each with a connection and a request in flight
  double seconds = 10;              // duration of the updates, and of the reads
  int server_core = 0;              // core that the server's process is pinned to
  bool shares_memory = true;
};

// Runs a parameter server at this address, pinned to one core, until interrupted. Prints its target.
void serve_tables(const std::string& address, int core, const std::atomic<bool>& interrupted);

// Starts `program` as a server process, creates all rows, then updates and reads random ones. Returns the
// rates and the resource use of the server's process.
nlohmann::json bench_tables(const std::string& program, const TablesBenchOptions& options);

}  // namespace distbelief::cli
