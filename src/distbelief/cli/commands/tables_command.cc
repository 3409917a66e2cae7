#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "distbelief/cli/commands.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/cli/tables_bench.h"

namespace distbelief::cli {
namespace {

struct TablesFlags {
  TablesBenchOptions bench;
  std::string listen;
  bool socket = false;
  bool json = false;
};

void print_tables(const nlohmann::json& found) {
  fmt::print(
      "{} rows of {} floats on one server core, {} ({:.1f} GB); {} clients, requests of {} rows ({} bytes)\n",
      found["rows"].get<std::int64_t>(), found["width"].get<int>(), found["way"].get<std::string>(),
      found["server_resident_bytes"].get<double>() / 1e9, found["clients"].get<int>(),
      found["request_rows"].get<std::size_t>(), found["request_bytes"].get<std::size_t>());
  fmt::print("{:>10} {:>12} {:>10} {:>14} {:>14}\n", "operation", "rows", "s", "rows/s", "server busy s");
  for (const auto& row : found["results"])
    fmt::print("{:>10} {:>12} {:>10.2f} {:>14.0f} {:>14.2f}\n", row["operation"].get<std::string>(),
               row["rows"].get<std::size_t>(), row["seconds"].get<double>(),
               row["rows_per_second"].get<double>(), row["server_cpu_seconds"].get<double>());
}

int bench_tables_command(TablesFlags flags) {
  if (!flags.listen.empty()) {
    serve_tables(flags.listen, flags.bench.server_core, Watch().interrupted());
    return 0;
  }
  flags.bench.shares_memory = !flags.socket;
  const nlohmann::json found = bench_tables(own_path(), flags.bench);
  if (flags.json)
    fmt::print("{}\n", found.dump());
  else
    print_tables(found);
  return 0;
}

}  // namespace

void add_bench_tables(CLI::App& bench, const Invocation&, Run& run) {
  auto flags = std::make_shared<TablesFlags>();
  CLI::App* command = bench.add_subcommand(
      "tables", "time updates and reads of random rows of a table on a parameter server");
  command->add_option("--rows", flags->bench.rows, "rows of the table")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  command->add_option("--width", flags->bench.width, "floats in a row")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  command->add_option("--request-rows", flags->bench.request_rows, "rows per request")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 16));
  command->add_option("--clients", flags->bench.clients, "connections, each with one request in flight")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command->add_option("--seconds", flags->bench.seconds, "seconds of updates, and of reads")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 600.0));
  command->add_option("--server-core", flags->bench.server_core, "core that the server is pinned to")
      ->capture_default_str()
      ->check(CLI::Range(0, 1023));
  command->add_option("--listen", flags->listen, "serve at this address until interrupted");
  command->add_flag("--socket", flags->socket, "share no memory: send everything through the Unix socket");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer("Example:\n  distbelief bench tables --rows 10000000 --width 64 --json");
  command->callback([=, &run] { run = [=] { return bench_tables_command(*flags); }; });
}

}  // namespace distbelief::cli
