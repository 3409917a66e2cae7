#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "distbelief/cli/commands.h"
#include "distbelief/cli/exchange_bench.h"
#include "distbelief/cli/interruption.h"

namespace distbelief::cli {
namespace {

struct ExchangeFlags {
  ExchangeBenchOptions bench;
  std::vector<std::string> listen, connect;
  bool json = false;
};

void print_rows(const nlohmann::json& rows) {
  fmt::print("{:>14} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "way", "operation", "MB", "ms", "least ms",
             "MB/s");
  for (const auto& row : rows) {
    const double megabytes = row["bytes"].get<double>() / 1e6, seconds = row["seconds_median"].get<double>();
    fmt::print("{:>14} {:>10} {:>10.1f} {:>10.2f} {:>10.2f} {:>10.0f}\n", row["way"].get<std::string>(),
               row["operation"].get<std::string>(), megabytes, 1e3 * seconds,
               1e3 * row["seconds_least"].get<double>(), megabytes / seconds);
  }
}

int bench_exchange(const ExchangeFlags& flags) {
  if (!flags.listen.empty()) {
    serve_arrays(flags.listen, flags.bench, Watch().interrupted());
    return 0;
  }
  const nlohmann::json rows = flags.connect.empty() ? bench_one_host(own_path(), flags.bench)
                                                    : bench_servers(flags.connect, flags.bench);
  if (flags.json)
    fmt::print("{}\n", rows.dump());
  else
    print_rows(rows);
  return 0;
}

}  // namespace

void add_bench_exchange(CLI::App& bench, const Invocation&, Run& run) {
  auto flags = std::make_shared<ExchangeFlags>();
  CLI::App* command = bench.add_subcommand(
      "exchange", "time push and pull of an array through a parameter server, and memcpy");
  command->add_option("--floats", flags->bench.floats, "number of floats in the array")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30));
  command->add_option("--repeats", flags->bench.repeats, "number of runs per operation")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  CLI::Option* listen =
      command->add_option("--listen", flags->listen, "serve at these addresses until interrupted")
          ->delimiter(',');
  command
      ->add_option("--connect", flags->connect,
                   "use the servers at these addresses, which share one map and split the array")
      ->delimiter(',')
      ->excludes(listen);
  command
      ->add_option("--map", flags->bench.map,
                   "addresses of all servers that split the array, the same list at each (default: each "
                   "server has its own array)")
      ->delimiter(',')
      ->needs(listen);
  command->add_option("--copies", flags->bench.copies, "copies of each slice; 2: on two servers of the map")
      ->capture_default_str()
      ->check(CLI::Range(1, 2))
      ->needs(listen);
  command->add_option("--logs", flags->bench.logs, "folder for the servers' update logs (default: no logs)")
      ->needs(listen);
  command->add_option("--certs", flags->bench.certificates,
                      "certificates for addresses host:port: the folder of `distbelief certs`");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Examples:\n  distbelief bench exchange\n  distbelief bench exchange --listen host1:7000 --map "
      "host1:7000,host2:7000 --certs certs\n"
      "  distbelief bench exchange --connect host1:7000,host2:7000 --certs certs");
  command->callback([=, &run] { run = [=] { return bench_exchange(*flags); }; });
}

}  // namespace distbelief::cli
