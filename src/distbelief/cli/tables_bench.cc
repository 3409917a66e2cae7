#include "distbelief/cli/tables_bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/cluster/child.h"
#include "distbelief/server/client/client.h"
#include "distbelief/server/service/service.h"

namespace distbelief::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kDrawnRequests = 2048;  // per client, before the clock starts
constexpr std::int64_t kTickets = std::int64_t{1} << 40;
constexpr std::size_t kDenseElements = 1024;

void keep_to_core(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(std::size_t(core), &cores);
  if (sched_setaffinity(0, sizeof cores, &cores) != 0)
    throw Error(ErrorCode::kBadInput, fmt::format("this process may not run on core {}", core));
}

class TableServerProcess {
 public:
  TableServerProcess(const std::string& program, const TablesBenchOptions& options,
                     const std::string& folder) {
    std::array<int, 2> pipe{};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0)
      throw Error(ErrorCode::kUnavailable, "no pipe to the server process");
    child_.emplace(cluster::Child::Options{
        .command = {program, "bench", "tables", "--listen", "unix:" + folder + "/server", "--server-core",
                    std::to_string(options.server_core)},
        .output = pipe[1]});
    ::close(pipe[1]);
    said_.reset(fdopen(pipe[0], "r"));
    std::array<char, 512> text{};
    if (std::fgets(text.data(), text.size(), said_.get()) == nullptr)
      throw Error(ErrorCode::kUnavailable, "the server process did not begin to listen");
    target_ = text.data();
    target_.resize(target_.find('\n'));
  }
  const std::string& target() const { return target_; }

  double cpu_seconds() const {
    std::ifstream file(fmt::format("/proc/{}/stat", child_->pid()));
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(text.rfind(')') + 2));
    std::string skipped;
    for (int i = 3; i < 14; ++i) fields >> skipped;
    double user = 0, system = 0;
    fields >> user >> system;
    return (user + system) / double(sysconf(_SC_CLK_TCK));
  }
  std::size_t resident_bytes() const {
    std::ifstream file(fmt::format("/proc/{}/statm", child_->pid()));
    std::size_t all = 0, resident = 0;
    file >> all >> resident;
    return resident * std::size_t(sysconf(_SC_PAGESIZE));
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> said_{nullptr,
                                                        std::fclose};  // open as long as the child may write
  std::optional<cluster::Child> child_;
  std::string target_;
};

server::Client::Options client_options(const std::string& target, const TablesBenchOptions& options,
                                       int number) {
  comm::TableSpec table;
  table.name = "rows";
  table.width = options.width;
  table.seed = 1;
  table.scale = 0.01;
  server::Client::Options made;
  made.servers.push_back({.target = target});
  made.spec.job = "bench";
  made.spec.elements = kDenseElements;  // a job needs parameters besides its tables
  made.spec.parameters.push_back({.begin = 0, .count = kDenseElements});
  made.spec.mode = "async";
  made.spec.tickets = kTickets;
  made.spec.tables.push_back(table);
  made.replica = number;
  made.shares_memory = options.shares_memory;
  return made;
}

// One connection with the ids of its requests.
class RowClient {
 public:
  RowClient(const std::string& target, const TablesBenchOptions& options, int number)
      : options_(options),
        number_(number),
        client_(client_options(target, options, number), std::vector<float>(kDenseElements).data()),
        numbers_(options.request_rows * options.width, 0.125F) {}

  // Creates this client's share of all rows.
  std::size_t make_rows() {
    const std::uint64_t begin = options_.rows * std::uint64_t(number_) / std::uint64_t(options_.clients);
    const std::uint64_t end = options_.rows * std::uint64_t(number_ + 1) / std::uint64_t(options_.clients);
    std::vector<std::uint64_t> ids;
    for (std::uint64_t id = begin; id < end; id += ids.size()) {
      ids.resize(std::min<std::uint64_t>(options_.request_rows, end - id));
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = id + i;
      throw_if_interrupted();
      push(ids);
    }
    return end - begin;
  }
  void draw() {
    SplitMix64 random(std::uint64_t(number_) + 1);
    drawn_.resize(kDrawnRequests);
    for (auto& ids : drawn_) {
      ids.resize(options_.request_rows);
      for (std::uint64_t& id : ids) id = random.below(options_.rows);
      std::ranges::sort(ids);
      const auto twice = std::ranges::unique(ids);
      ids.erase(twice.begin(), twice.end());
    }
  }
  // Calls `each` until the time is over; returns the number of rows.
  std::size_t run(const std::function<void(const std::vector<std::uint64_t>&)>& each, Clock::time_point end) {
    std::size_t rows = 0;
    for (std::size_t i = 0; Clock::now() < end; i = (i + 1) % drawn_.size()) {
      throw_if_interrupted();
      each(drawn_[i]);
      rows += drawn_[i].size();
    }
    return rows;
  }
  void push(const std::vector<std::uint64_t>& ids) {
    client_.push_rows(0, ticket_, 0.01, ids, std::span(numbers_).first(ids.size() * options_.width));
    ticket_ += options_.clients;
  }
  void pull(const std::vector<std::uint64_t>& ids) {
    client_.pull_rows(0, ids, std::span(numbers_).first(ids.size() * options_.width));
  }
  std::int64_t count() { return client_.list_rows(0, {}).rows; }

 private:
  const TablesBenchOptions& options_;
  int number_;
  server::Client client_;
  std::vector<float> numbers_;
  std::vector<std::vector<std::uint64_t>> drawn_;
  std::int64_t ticket_ = number_;  // clients alternate
};

nlohmann::json timed(const std::string& operation, std::vector<std::unique_ptr<RowClient>>& clients,
                     const TableServerProcess& server, const std::function<std::size_t(RowClient&)>& work) {
  std::vector<std::size_t> rows(clients.size());
  std::vector<std::exception_ptr> failures(clients.size());
  const double cpu = server.cpu_seconds();
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < clients.size(); ++i)
      threads.emplace_back([&, i] {
        try {
          rows[i] = work(*clients[i]);
        } catch (...) {
          failures[i] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::size_t all = 0;
  for (const std::size_t each : rows) all += each;
  return {{"operation", operation},
          {"rows", all},
          {"seconds", seconds},
          {"rows_per_second", double(all) / seconds},
          {"server_cpu_seconds", server.cpu_seconds() - cpu}};
}

}  // namespace

void serve_tables(const std::string& address, int core, const std::atomic<bool>& interrupted) {
  keep_to_core(core);                     // before there are threads, because they inherit it
  spdlog::set_level(spdlog::level::err);  // standard output is for the target
  server::Service service(
      {.logs = std::filesystem::path(address.substr(address.find(':') + 1)).parent_path()});
  comm::ExchangeServer exchange({.address = {.target = address}, .shared_limit = std::size_t{1} << 30},
                                service);
  service.set_map(server::first_map({{.id = 0, .target = exchange.target()}}));
  fmt::print("{}\n", exchange.target());
  std::fflush(stdout);
  while (!interrupted) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

nlohmann::json bench_tables(const std::string& program, const TablesBenchOptions& given) {
  TablesBenchOptions options = given;
  options.request_rows =
      std::min(options.request_rows, comm::TableSpec{.width = options.width}.message_rows());
  const Watch watch;  // so that the folder is removed
  const ScratchFolder scratch;
  const TableServerProcess server(program, options, scratch.path());
  if (const int cores = int(std::thread::hardware_concurrency()); cores > 1)
    keep_to_core((options.server_core + 1) % cores);
  std::vector<std::unique_ptr<RowClient>> clients;
  for (int i = 0; i < options.clients; ++i)
    clients.push_back(std::make_unique<RowClient>(server.target(), options, i));
  nlohmann::json rows = nlohmann::json::array();
  rows.push_back(timed("create", clients, server, [](RowClient& client) { return client.make_rows(); }));
  for (const auto& client : clients) client->draw();
  const auto until = [&] {
    return Clock::now() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
  };
  for (const bool pushes : {true, false}) {
    const Clock::time_point end = until();
    rows.push_back(timed(pushes ? "update" : "read", clients, server, [&](RowClient& client) {
      return client.run(
          [&](const std::vector<std::uint64_t>& ids) { pushes ? client.push(ids) : client.pull(ids); }, end);
    }));
  }
  const std::size_t row_bytes = sizeof(std::uint64_t) + options.width * sizeof(float);
  return {{"rows", clients[0]->count()},
          {"width", options.width},
          {"request_rows", options.request_rows},
          {"request_bytes", options.request_rows * row_bytes},
          {"clients", options.clients},
          {"server_cores", 1},
          {"way", options.shares_memory ? "shared memory" : "unix socket"},
          {"server_resident_bytes", server.resident_bytes()},
          {"results", rows}};
}

}  // namespace distbelief::cli
