#include "distbelief/cli/exchange_bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/base/median.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/cluster/child.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/comm/rpc/exchange_client.h"
#include "distbelief/comm/rpc/exchange_server.h"
#include "distbelief/compute/kernels.h"

namespace distbelief::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kAnswerDeadline{60};
constexpr std::size_t kMessageFloats = comm::kMaxPayloadBytes / sizeof(float);
constexpr std::size_t kMostSharedBytes = std::size_t{1} << 30;

enum class Operation : std::uint64_t { kPush, kPull };

// The header of a request: what to do with which part of the array.
struct PartHeader {
  Operation operation;
  std::uint64_t begin;
  std::uint64_t count;
};

std::string to_text(const PartHeader& part) { return {reinterpret_cast<const char*>(&part), sizeof part}; }

// A server's array: a push is a step of plain SGD, a pull copies out.
class ArrayStore final : public comm::ExchangeServer::Handler {
 public:
  explicit ArrayStore(std::size_t floats) : values_(floats, 1.0f) {}

  void handle(comm::ExchangeServer::Request request) override {
    PartHeader part{};
    if (request.header().size() != sizeof part)
      return request.refuse(ErrorCode::kBadInput, "no such operation");
    std::memcpy(&part, request.header().data(), sizeof part);
    if (part.begin > values_.size() || part.count > values_.size() - part.begin)
      return request.refuse(ErrorCode::kBadInput, "no such part");
    float* values = values_.data() + part.begin;
    if (part.operation == Operation::kPush) {
      const std::span<const std::byte> payload = request.payload();
      if (payload.size() != part.count * sizeof(float))
        return request.refuse(ErrorCode::kBadInput, "another size");
      compute::sgd_plain(values, reinterpret_cast<const float*>(payload.data()), {.lr = 0.5f}, part.count);
    } else {
      const std::size_t bytes = part.count * sizeof(float);
      if (bytes > request.room()) return request.refuse(ErrorCode::kBadInput, "another size");
      std::memcpy(request.reserve(bytes).data(), values, bytes);
    }
    request.answer("");
  }
  void gone(std::uint64_t) override {}

 private:
  std::vector<float> values_;
};

comm::ControlAddress address_for(const std::string& target, const std::string& certificates,
                                 const std::string& role) {
  if (target.starts_with("unix:")) return {.target = target};
  if (certificates.empty())
    throw Error(ErrorCode::kBadInput,
                fmt::format("address {}: name the folder of `distbelief certs` with --certs", target));
  return comm::secure_address(target, certificates, role);
}

// Where this end's arrays lie.
enum class Sharing { kNone, kInPlace };

// One way to one or more servers, and the arrays at this end: gradients to push, parameters to pull into.
class ArrayClient {
 public:
  ArrayClient(const std::vector<std::string>& targets, const ExchangeBenchOptions& options, Sharing sharing)
      : sharing_(sharing),
        share_(options.floats / targets.size()) {
    for (const std::string& target : targets)
      clients_.push_back(std::make_unique<comm::ExchangeClient>(
          comm::ExchangeClient::Options{.address = address_for(target, options.certificates, "worker"),
                                        .name = "bench",
                                        .shared_bytes = shared_bytes()}));
    if (sharing == Sharing::kInPlace) {
      const std::span<std::byte> shared = clients_.front()->shared();
      if (shared.empty())
        throw Error(ErrorCode::kUnavailable, "the server shares no memory with this process");
      gradients_ = {reinterpret_cast<float*>(shared.data()), share_};
      pulled_ = {reinterpret_cast<float*>(shared.data() + shared.size() / 2), share_};
    } else {
      own_.resize(2 * share_ * targets.size());
      gradients_ = std::span(own_).first(share_ * targets.size());
      pulled_ = std::span(own_).subspan(share_ * targets.size());
    }
    std::ranges::fill(gradients_, 0.25f);
    std::ranges::fill(pulled_, 0.0f);
  }

  double seconds(Operation operation) {
    const auto began = Clock::now();
    std::vector<comm::ExchangeClient::Pending> pending;
    for (std::size_t begin = 0; begin < share_; begin += kMessageFloats)
      for (std::size_t server = 0; server < clients_.size(); ++server)
        pending.push_back(send(server, operation, begin, std::min(kMessageFloats, share_ - begin)));
    for (comm::ExchangeClient::Pending& each : pending) each.wait(kAnswerDeadline);
    return std::chrono::duration<double>(Clock::now() - began).count();
  }

 private:
  std::size_t shared_bytes() const {
    return sharing_ == Sharing::kInPlace ? (2 * share_ * sizeof(float) + 127) / 128 * 128 : 0;
  }

  comm::ExchangeClient::Pending send(std::size_t server, Operation operation, std::size_t begin,
                                     std::size_t count) {
    const std::string header = to_text({operation, begin, count});
    const std::size_t at = server * share_ + begin;
    if (operation == Operation::kPush)
      return clients_[server]->send(header, std::as_bytes(gradients_.subspan(at, count)), {});
    return clients_[server]->send(header, {}, std::as_writable_bytes(pulled_.subspan(at, count)));
  }

  Sharing sharing_;
  std::size_t share_;  // floats of one server
  std::vector<std::unique_ptr<comm::ExchangeClient>> clients_;
  std::vector<float> own_;
  std::span<float> gradients_, pulled_;
};

double memcpy_seconds(std::vector<float>& into, const std::vector<float>& from) {
  const auto began = Clock::now();
  std::memcpy(into.data(), from.data(), from.size() * sizeof(float));
  return std::chrono::duration<double>(Clock::now() - began).count();
}

// Times of one operation one way.
struct Times {
  std::string way, operation;
  std::function<double()> run;
  std::vector<double> seconds{};
};

nlohmann::json measure(std::vector<Times>& all, const ExchangeBenchOptions& options) {
  for (Times& each : all) each.run();  // connections, caches and buffers get warm
  for (int repeat = 0; repeat < options.repeats; ++repeat)
    for (Times& each : all) each.seconds.push_back(each.run());
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

// The server process of a bench on one host, and what it listens on.
class ServerProcess {
 public:
  ServerProcess(const std::string& program, const ExchangeBenchOptions& options, const std::string& folder) {
    std::array<int, 2> pipe{};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0)
      throw Error(ErrorCode::kUnavailable, "no pipe to the server process");
    child_.emplace(cluster::Child::Options{
        .command = {program, "bench", "exchange", "--listen", "unix:" + folder + "/server,127.0.0.1:0",
                    "--certs", folder, "--floats", std::to_string(options.floats)},
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

}  // namespace

void serve_arrays(const std::vector<std::string>& addresses, const ExchangeBenchOptions& options,
                  const std::atomic<bool>& interrupted) {
  ArrayStore store(options.floats);
  std::vector<std::unique_ptr<comm::ExchangeServer>> servers;
  for (const std::string& address : addresses) {
    servers.push_back(std::make_unique<comm::ExchangeServer>(
        comm::ExchangeServer::Options{.address = address_for(address, options.certificates, "server"),
                                      .shared_limit = kMostSharedBytes},
        store));
    fmt::print("{}\n", servers.back()->target());
  }
  std::fflush(stdout);
  while (!interrupted) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

nlohmann::json bench_servers(const std::vector<std::string>& targets, const ExchangeBenchOptions& options) {
  ArrayClient client(targets, options, Sharing::kNone);
  std::vector<Times> all;
  add_way(all, fmt::format("{} servers", targets.size()), client);
  return measure(all, options);
}

nlohmann::json bench_one_host(const std::string& program, const ExchangeBenchOptions& given) {
  const ScratchFolder scratch;
  ExchangeBenchOptions options = given;
  options.certificates = scratch.path() / "certificates";
  comm::make_certificates(options.certificates, std::chrono::days(1));
  const ServerProcess server(program, options, options.certificates);
  ArrayClient shared({server.unix_target()}, options, Sharing::kInPlace);
  ArrayClient socket({server.unix_target()}, options, Sharing::kNone);
  ArrayClient tls({server.tls_target()}, options, Sharing::kNone);
  std::vector<float> from(options.floats, 1.0f), into(options.floats, 0.0f);
  std::vector<Times> all;
  add_way(all, "shared memory", shared);
  add_way(all, "unix socket", socket);
  add_way(all, "mutual TLS", tls);
  all.push_back({"memcpy", "copy", [&] { return memcpy_seconds(into, from); }});
  return measure(all, options);
}

}  // namespace distbelief::cli
