#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

// How fast a parameter server updates rows of a table: `distbelief bench tables`. Without torch.
namespace distbelief::cli {

struct TablesBenchOptions {
  std::uint64_t rows = 10'000'000;
  std::uint32_t width = 64;
  std::size_t request_rows = 3840;  // in one message
  int clients = 2;                  // threads of this process, each with a connection and a request under way
  double seconds = 10;              // of updates, and of reads
  int server_core = 0;              // that the server's process keeps to
  bool shares_memory = true;
};

// A parameter server at this address, kept to one core, until interrupted. Its target is printed.
void serve_tables(const std::string& address, int core, const std::atomic<bool>& interrupted);

// Makes all rows, then updates and reads random ones, through a server process that `program` is started as:
// rates, and what the server's process used.
nlohmann::json bench_tables(const std::string& program, const TablesBenchOptions& options);

}  // namespace distbelief::cli
