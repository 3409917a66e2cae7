#include "distbelief/cli/exchange_bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/base/median.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/cluster/child.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/comm/rpc/exchange_server.h"
#include "distbelief/server/client/client.h"
#include "distbelief/server/service/service.h"

namespace distbelief::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kExchangeDeadline{60};
constexpr std::size_t kMostSharedBytes = std::size_t{1} << 30;
constexpr std::int64_t kBenchTickets = std::int64_t{1} << 40;

enum class Operation { kPush, kPull };

// A job whose servers update with plain SGD.
comm::SpaceSpec job_of(std::size_t floats) {
  comm::SpaceSpec spec{.job = "bench",
                       .elements = floats,
                       .parameters = {{.begin = 0, .count = floats}},
                       .mode = "async",
                       .tickets = kBenchTickets};
  spec.optimizer.momentum = 0;
  return spec;
}

comm::ControlAddress address_for(const std::string& target, const std::string& certificates,
                                 const std::string& role) {
  if (target.starts_with("unix:")) return {.target = target};
  if (certificates.empty())
    throw Error(ErrorCode::kBadInput,
                fmt::format("address {}: name the folder of `distbelief certs` with --certs", target));
  return comm::secure_address(target, certificates, role);
}

// One connection to the servers of a map, with its arrays: gradients to push, parameters to pull into.
class ArrayClient {
 public:
  enum class Memory { kOwn, kShared };  // kShared: with the server's host
  ArrayClient(const std::vector<std::string>& targets, const ExchangeBenchOptions& options, Memory memory,
              int replica)
      : gradients_(options.floats, 0.25f),
        pulled_(options.floats, 0.0f),
        next_ticket_(std::int64_t(replica) << 32) {
    const std::vector<float> initial(options.floats, 1.0f);
    server::Client::Options client{.spec = job_of(options.floats),
                                   .replica = replica,
                                   .shares_memory = memory == Memory::kShared,
                                   .deadline = kExchangeDeadline};
    for (const std::string& target : targets)
      client.servers.push_back(address_for(target, options.certificates, "worker"));
    client_.emplace(std::move(client), initial.data());
  }

  double seconds(Operation operation) {
    const auto began = Clock::now();
    if (operation == Operation::kPush)
      client_->push({.ticket = next_ticket_++, .lr = 1e-6}, gradients_);
    else
      client_->pull(pulled_);
    return std::chrono::duration<double>(Clock::now() - began).count();
  }

 private:
  std::vector<float> gradients_, pulled_;
  std::int64_t next_ticket_;  // a push counts once per ticket, so each has another
  std::optional<server::Client> client_;
};

double memcpy_seconds(std::vector<float>& into, const std::vector<float>& from) {
  const auto began = Clock::now();
  std::memcpy(into.data(), from.data(), from.size() * sizeof(float));
  return std::chrono::duration<double>(Clock::now() - began).count();
}

// Times of one operation over one connection.
struct Times {
  std::string way, operation;
  std::function<double()> run;
  std::vector<double> seconds{};
};

nlohmann::json measure(std::vector<Times>& all, const ExchangeBenchOptions& options) {
  for (Times& each : all) each.run();  // warms up connections, caches and buffers
  for (int repeat = 0; repeat < options.repeats; ++repeat)
    for (Times& each : all) {
      throw_if_interrupted();
      each.seconds.push_back(each.run());
    }
  nlohmann::json rows = nlohmann::json::array();
  for (const Times& each : all)
    rows.push_back({{"way", each.way},
                    {"operation", each.operation},
                    {"bytes", options.floats * sizeof(float)},
                    {"seconds_median", median(each.seconds)},
                    {"seconds_least", *std::ranges::min_element(each.seconds)},
                    {"repeats", options.repeats}});
  return rows;
}

void add_way(std::vector<Times>& all, const std::string& way, ArrayClient& client) {
  all.push_back({way, "push", [&client] { return client.seconds(Operation::kPush); }});
  all.push_back({way, "pull", [&client] { return client.seconds(Operation::kPull); }});
}

// The server process of a bench on one host, and its targets.
class ServerProcess {
 public:
  ServerProcess(const std::string& program, const std::string& folder) {
    std::array<int, 2> pipe{};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0)
      throw Error(ErrorCode::kUnavailable, "no pipe to the server process");
    child_.emplace(cluster::Child::Options{
        .command = {program, "bench", "exchange", "--listen", "unix:" + folder + "/server,127.0.0.1:0",
                    "--certs", folder, "--logs", folder},
        .output = pipe[1]});
    ::close(pipe[1]);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> said(fdopen(pipe[0], "r"), std::fclose);
    for (std::string& target : targets_) target = line(said.get());
  }
  const std::string& unix_target() const { return targets_[0]; }
  const std::string& tls_target() const { return targets_[1]; }

 private:
  static std::string line(std::FILE* file) {
    std::array<char, 512> text{};
    if (std::fgets(text.data(), text.size(), file) == nullptr)
      throw Error(ErrorCode::kUnavailable, "the server process did not begin to listen");
    const std::string result = text.data();
    return result.substr(0, result.find('\n'));
  }

  std::optional<cluster::Child> child_;
  std::array<std::string, 2> targets_;
};

// The map of servers at these addresses, numbered in their order.
server::ServerMap map_of(const std::vector<std::string>& targets, int copies) {
  std::vector<server::ServerMap::Server> servers;
  for (const std::string& target : targets) servers.push_back({.id = int(servers.size()), .target = target});
  server::ServerMap map = server::first_map(servers);
  if (copies == 1)
    for (server::ServerMap::Part& part : map.parts) part.backup = server::kNobody;
  return map;
}

int place_in(const std::vector<std::string>& map, const std::string& address) {
  const auto place = std::ranges::find(map, address);
  if (place == map.end())
    throw Error(ErrorCode::kBadInput,
                fmt::format("address {}: --map has {}; name each server's own address there", address,
                            fmt::join(map, ",")));
  return int(place - map.begin());
}

}  // namespace

void serve_arrays(const std::vector<std::string>& addresses, const ExchangeBenchOptions& options,
                  const std::atomic<bool>& interrupted) {
  spdlog::set_level(spdlog::level::off);  // standard output is for the targets
  std::deque<server::Service> services;
  std::vector<std::unique_ptr<comm::ExchangeServer>> servers;
  for (const std::string& address : addresses) {
    const comm::ControlAddress identity = address_for(address, options.certificates, "server");
    const bool alone = options.map.empty();  // otherwise one of a set
    const int id = alone ? int(services.size()) : place_in(options.map, address);
    services.emplace_back(server::Service::Options{.id = id, .identity = identity, .logs = options.logs});
    servers.push_back(std::make_unique<comm::ExchangeServer>(
        comm::ExchangeServer::Options{.address = identity, .shared_limit = kMostSharedBytes},
        services.back()));
    services.back().set_map(alone ? server::first_map({{.id = id, .target = servers.back()->target()}})
                                  : map_of(options.map, options.copies));
    fmt::print("{}\n", servers.back()->target());
  }
  std::fflush(stdout);
  while (!interrupted) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

nlohmann::json bench_servers(const std::vector<std::string>& targets, const ExchangeBenchOptions& options) {
  ArrayClient client(targets, options, ArrayClient::Memory::kOwn, 0);
  std::vector<Times> all;
  add_way(all, fmt::format("{} servers", targets.size()), client);
  return measure(all, options);
}

nlohmann::json bench_one_host(const std::string& program, const ExchangeBenchOptions& given) {
  const Watch watch;  // so that the folder is removed
  const ScratchFolder scratch;
  ExchangeBenchOptions options = given;
  options.certificates = scratch.path() / "certificates";
  comm::make_certificates(options.certificates, std::chrono::days(1));
  const ServerProcess server(program, options.certificates);
  using Memory = ArrayClient::Memory;
  ArrayClient shared({server.unix_target()}, options, Memory::kShared, 0);
  ArrayClient socket({server.unix_target()}, options, Memory::kOwn, 1);
  ArrayClient tls({server.tls_target()}, options, Memory::kOwn, 2);
  std::vector<float> from(options.floats, 1.0f), into(options.floats, 0.0f);
  std::vector<Times> all;
  add_way(all, "shared memory", shared);
  add_way(all, "unix socket", socket);
  add_way(all, "mutual TLS", tls);
  all.push_back({"memcpy", "copy", [&] { return memcpy_seconds(into, from); }});
  return measure(all, options);
}

}  // namespace distbelief::cli
