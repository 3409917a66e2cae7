// Replays the log of an asynchronous run by hand: theta(t + 1) = theta(t) - eta g_i(t_i), in the order of
// versions, with the pushed gradients. The bits must be equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "distbelief/base/random.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/server/audit/log_check.h"
#include "distbelief/server/client/client.h"
#include "distbelief/server/service/service.h"
#include "distbelief/testing/test_tickets.h"

namespace distbelief::server {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kReplayElements = comm::kSliceElements + 5000;  // two slices
constexpr std::int64_t kReplayTickets = 60;
constexpr int kReplayReplicas = 3;
constexpr double kReplayRate = 0.037;
const OptimizerConfig kReplayDefaults;

// Depends on the replica's values, as a gradient does, and on the ticket.
std::vector<float> gradient_at(const std::vector<float>& values, std::int64_t ticket) {
  std::vector<float> gradient(values.size());
  SplitMix64 random{std::uint64_t(ticket) * 7919 + 1};
  for (std::size_t i = 0; i < values.size(); ++i)
    gradient[i] = values[i] * 0.3F + float(random.uniform()) - 0.5F;
  return gradient;
}

struct ReplayCase {
  const char* name;
  const char* rule;
  float momentum = 0;
  float weight_decay = 0;
  float compensation = 0;
  bool staleness_aware = false;
};

class ReplayTest : public ::testing::TestWithParam<ReplayCase> {
 protected:
  void SetUp() override {
    std::vector<ServerMap::Server> known;
    for (int id = 0; id < 2; ++id) {
      const std::string target = "unix:" + (scratch_.path() / std::to_string(id)).string();
      services_.push_back(
          std::make_unique<Service>(Service::Options{.id = id, .logs = scratch_.path() / "servers"}));
      exchanges_.push_back(std::make_unique<comm::ExchangeServer>(
          comm::ExchangeServer::Options{.address = {.target = target}, .shared_limit = std::size_t{1} << 30},
          *services_.back()));
      known.push_back({.id = id, .target = target});
      addresses_.push_back({.target = target});
    }
    for (const auto& service : services_) service->set_map(first_map(known));
  }
  void TearDown() override {
    exchanges_.clear();
    services_.clear();
  }
  comm::SpaceSpec spec() const {
    comm::SpaceSpec spec{.job = "replayed",
                         .elements = kReplayElements,
                         .parameters = {{.begin = 0, .count = kReplayElements}},
                         .mode = "async"};
    spec.optimizer.name = GetParam().rule;
    spec.optimizer.momentum = GetParam().momentum;
    spec.optimizer.weight_decay = GetParam().weight_decay;
    spec.compensation = GetParam().compensation;
    spec.staleness_aware = GetParam().staleness_aware;
    spec.tickets = kReplayTickets;
    return spec;
  }
  Client join(int replica) {
    return Client({.servers = addresses_, .spec = spec(), .replica = replica, .deadline = 20s},
                  first_.data());
  }
  void train(int replica) {
    Client client = join(replica);
    UpdateLog log(scratch_.path() / "servers" / ("replica" + std::to_string(replica) + ".jsonl"));
    std::vector<float> values(kReplayElements);
    client.pull(values);
    std::vector<std::int64_t> done;
    for (;;) {
      auto asked = client.ask_ticket(done);
      const std::optional<std::int64_t> ticket = testing::ticket_of(client, asked);
      if (!ticket) return;
      const std::vector<float> gradient = gradient_at(values, *ticket);
      kept_[std::size_t(*ticket)] = gradient;
      client.push_pull({.ticket = *ticket, .lr = kReplayRate}, gradient, values);
      log.append_acknowledged(*ticket, client.answered());
      done = {*ticket};
    }
  }

  const ScratchFolder scratch_;
  const std::vector<float> first_ = std::vector<float>(kReplayElements, 0.25F);
  std::vector<comm::ControlAddress> addresses_;
  std::vector<std::unique_ptr<Service>> services_;
  std::vector<std::unique_ptr<comm::ExchangeServer>> exchanges_;
  std::vector<std::vector<float>> kept_ = std::vector<std::vector<float>>(kReplayTickets);  // gradients
};

// One element of one slice, after each of its updates.
class ByHand {
 public:
  ByHand(const ReplayCase& how, float first) : how_(how), rule_(how.rule), value_(first) {}
  // `read`: the replica's value when it computed the gradient.
  void update(float gradient, double lr, float read) {
    ++steps_;
    const auto rate = float(lr);
    // Zheng et al., Asynchronous SGD with Delay Compensation
    if (how_.compensation > 0)
      gradient = gradient + how_.compensation * gradient * gradient * (value_ - read);
    if (how_.weight_decay > 0) gradient = std::fma(how_.weight_decay, value_, gradient);
    if (rule_ == "sgd" && how_.momentum == 0) {
      value_ = std::fma(-rate, gradient, value_);
    } else if (rule_ == "sgd") {
      mean_ = how_.momentum * mean_ + gradient;
      value_ = std::fma(-rate, mean_, value_);
    } else if (rule_ == "adam") {
      update_as_adam(gradient);
    } else {  // Duchi et al., Adaptive Subgradient Methods; as in the paper's servers
      squares_ = squares_ + gradient * gradient;
      value_ = value_ - rate * (gradient / (std::sqrt(squares_) + float(kReplayDefaults.eps)));
    }
  }
  float value() const { return value_; }

 private:
  // Kingma and Ba, Adam.
  void update_as_adam(float gradient) {
    const OptimizerConfig& config = kReplayDefaults;
    mean_ = std::fma(float(1 - config.beta1), gradient, float(config.beta1) * mean_);
    squares_ = std::fma(float(1 - config.beta2) * gradient, gradient, float(config.beta2) * squares_);
    const auto root = float(std::sqrt(1 - std::pow(config.beta2, double(steps_))));
    const auto step = float(kReplayRate / (1 - std::pow(config.beta1, double(steps_))));
    value_ = value_ - step * mean_ / (std::sqrt(squares_) / root + float(config.eps));
  }

  ReplayCase how_;
  std::string_view rule_;
  float value_;
  float mean_ = 0;
  float squares_ = 0;
  std::int64_t steps_ = 0;
};

TEST_P(ReplayTest, GivesTheSameBits) {
  {
    std::vector<std::jthread> replicas;
    replicas.reserve(kReplayReplicas);
    for (int i = 0; i < kReplayReplicas; ++i) replicas.emplace_back([this, i] { train(i); });
  }
  std::vector<float> last(kReplayElements);
  join(9).pull(last);

  const RunLogs logs = read_run_logs(scratch_.path());
  const LogProof proof = check_logs(logs, {.tickets = kReplayTickets});
  ASSERT_TRUE(proof.proven) << proof.finding;
  EXPECT_EQ(proof.acknowledged, kReplayTickets);

  for (std::int64_t slice = 0; slice < 2; ++slice) {
    const std::size_t begin = std::size_t(slice) * comm::kSliceElements;
    const std::size_t size = std::min(comm::kSliceElements, kReplayElements - begin);
    std::vector<UpdateRecord> updates;  // both servers have all; these are the first one's
    for (const LogLine& line : logs.servers.at(0))
      if (line.kind == LogLine::Kind::kUpdate && line.update.slice == slice) updates.push_back(line.update);
    ASSERT_EQ(updates.size(), std::size_t(kReplayTickets));
    std::vector<ByHand> hand(size, ByHand(GetParam(), 0.25F));
    std::vector<std::vector<float>> history{std::vector<float>(size, 0.25F)};  // by version
    bool was_late = false;
    for (const UpdateRecord& update : updates) {
      const auto delay = double(std::max<std::int64_t>(1, update.version - 1 - update.base));
      ASSERT_EQ(update.lr, GetParam().staleness_aware ? kReplayRate / delay : kReplayRate);
      was_late = was_late || update.base + 1 < update.version;
      // The kept gradient equals the one that its replica computed from the version in the log.
      std::vector<float> whole(kReplayElements);
      const std::vector<float>& base = history[std::size_t(update.base)];
      std::copy(base.begin(), base.end(), whole.begin() + std::ptrdiff_t(begin));
      const std::vector<float> again = gradient_at(whole, update.ticket);
      const auto first = std::ptrdiff_t(begin), end = std::ptrdiff_t(begin + size);
      ASSERT_TRUE(std::equal(again.begin() + first, again.begin() + end,
                             kept_[std::size_t(update.ticket)].begin() + first))
          << update.version;
      history.emplace_back(size);
      std::vector<float>& next = history.back();
      for (std::size_t i = 0; i < size; ++i) {
        hand[i].update(again[begin + i], update.lr, history[std::size_t(update.base)][i]);
        next[i] = hand[i].value();
      }
    }
    EXPECT_TRUE(was_late) << "no gradient was computed from older values: nothing asynchronous was tried";
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(hand[i].value(), last[begin + i]) << slice << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, ReplayTest,
    ::testing::Values(ReplayCase{.name = "sgd", .rule = "sgd"},
                      ReplayCase{.name = "momentum", .rule = "sgd", .momentum = 0.5F},
                      ReplayCase{.name = "adagrad", .rule = "adagrad"},
                      ReplayCase{.name = "adam", .rule = "adam"},
                      ReplayCase{.name = "weight_decay", .rule = "adagrad", .weight_decay = 0.0625F},
                      ReplayCase{.name = "staleness_aware", .rule = "sgd", .staleness_aware = true},
                      ReplayCase{.name = "compensated", .rule = "adagrad", .compensation = 0.25F}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace distbelief::server
