#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/compute/lbfgs.h"
#include "distbelief/server/client/client.h"
#include "distbelief/server/client/map_plan.h"
#include "distbelief/server/scheduler/portion_deals.h"
#include "distbelief/server/service/service.h"
#include "distbelief/testing/test_tickets.h"

// Batch methods over real servers on Unix sockets in this process: commands, portions, and losses.
namespace distbelief::server {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Op = Operation::Kind;

constexpr std::int64_t kPortionsOfTest = 6;
const compute::LbfgsOptions kMethod{.history = 2, .tolerance = 1e-2, .evaluations = 60};

TEST(PortionDeals, TheCoordinatorComesAfterItsPortionsAndBeforeTheNext) {
  EXPECT_EQ(portion_ticket(0, 3), (PortionTicket{0, 0}));
  EXPECT_EQ(portion_ticket(3, 3), (PortionTicket{0, 3}));
  EXPECT_EQ(portion_ticket(9, 3), (PortionTicket{2, 1}));
  EXPECT_EQ(coordinator_ticket(2, 3), 11);
  for (const auto& [below, limit] : {std::pair{0, 3}, {2, 3}, {3, 4}, {4, 7}, {6, 7}, {7, 8}, {8, 11}})
    EXPECT_EQ(dealable(below, 3), limit) << below;
}

// A quadratic bowl: its portions pull to different sides, and it is their mean.
double bowl_portion(std::int64_t portion, const std::vector<float>& x, std::vector<float>& gradient) {
  const double share = 1 + 0.2 * (double(portion) - 0.5 * double(kPortionsOfTest - 1));
  double loss = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double scale = 1e-3 * double(1 + i % 7), d = double(x[i]) - 0.25 * double(i % 3);
    loss += 0.5 * scale * d * d;
    gradient[i] = float(share * scale * d);
  }
  return share * loss;
}

// Mishaps of the coordinating replica, by the number of the command before which each happens.
struct Mishaps {
  std::mutex mutex{};
  std::map<std::int64_t, std::function<void()>> before{};

  void happen(std::int64_t sequence) {
    std::function<void()> mishap;
    {
      const std::lock_guard lock(mutex);
      if (auto found = before.extract(sequence)) mishap = std::move(found.mapped());
    }
    if (mishap) mishap();
  }
};
struct KilledReplica {};

class CommandsOverServers final : public compute::VectorStore {
 public:
  CommandsOverServers(Client& client, Mishaps* mishaps) : client_(client), mishaps_(mishaps) {}
  std::vector<double> run(std::int64_t sequence, std::span<const Operation> operations) override {
    if (mishaps_) mishaps_->happen(sequence);
    return client_.run(sequence, operations);
  }

 private:
  Client& client_;
  Mishaps* mishaps_;
};

class VectorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("db_vectors_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override {
    end_servers();
    fs::remove_all(folder_);
  }
  void end_servers() {
    exchanges_.clear();
    services_.clear();
    addresses_.clear();
  }
  void add_server(std::size_t job_limit = std::size_t(-1)) {
    const int id = int(services_.size());
    services_.push_back(std::make_unique<Service>(Service::Options{
        .id = id, .logs = folder_ / "logs", .job_limit = job_limit, .on_settled = [this](std::int64_t) {
          ++filled_;
          filled_.notify_all();
        }}));
    addresses_.push_back({.target = "unix:" + (folder_ / std::to_string(id)).string()});
    exchanges_.push_back(std::make_unique<comm::ExchangeServer>(
        comm::ExchangeServer::Options{.address = addresses_.back(), .shared_limit = std::size_t{1} << 30},
        *services_.back()));
  }
  void serve(int servers, std::size_t job_limit = std::size_t(-1)) {
    std::vector<ServerMap::Server> known;
    for (int i = 0; i < servers; ++i) {
      add_server(job_limit);
      known.push_back({.id = i, .target = addresses_.back().target});
    }
    publish(first_map(known));
  }
  void publish(const ServerMap& map) {
    {
      const std::lock_guard lock(mutex_);
      map_ = map;
    }
    for (const auto& service : services_)
      if (service) service->set_map(map);
  }
  // As if its process were killed.
  void lose_server(int id) {
    exchanges_[std::size_t(id)]->close();
    publish(without_server(map_, id));
    exchanges_[std::size_t(id)].reset();
    services_[std::size_t(id)].reset();
  }
  // Fills a server that takes the place of a lost one, while the run continues.
  void fill_another() {
    add_server();
    filled_ = 0;
    const ServerMap::Server newcomer{.id = int(services_.size()) - 1, .target = addresses_.back().target};
    publish(next_step(with_newcomer(map_, newcomer), {})->map);
    filled_.wait(0);
    publish(with_settled(map_));
  }
  static comm::SpaceSpec spec() {
    const std::uint64_t elements = 2 * comm::kSliceElements + 1024;
    comm::SpaceSpec spec{.job = "test",
                         .elements = elements,
                         .parameters = {{.begin = 0, .count = elements}},
                         .mode = "sandblaster",
                         .tickets = kMethod.evaluations * (kPortionsOfTest + 1),
                         .portions = kPortionsOfTest,
                         .vectors = std::int64_t(compute::lbfgs_vectors(kMethod.history))};
    spec.optimizer.momentum = 0;
    return spec;
  }
  Client join(int replica, std::int64_t incarnation = 1) {
    const std::vector<float> initial(spec().elements, 1.0F);
    std::vector<comm::ControlAddress> servers;
    {
      const std::lock_guard lock(mutex_);
      for (const ServerMap::Server& server : map_.servers) servers.push_back({.target = server.target});
    }
    return Client(
        {.servers = servers, .spec = spec(), .replica = replica, .incarnation = incarnation, .deadline = 20s},
        initial.data());
  }

  // Runs a replica until all work is done.
  void work(int replica, std::int64_t incarnation, Mishaps* mishaps) {
    Client client = join(replica, incarnation);
    std::vector<float> point(spec().elements), gradient(point.size());
    std::vector<std::int64_t> done;
    for (;;) {
      Client::Asked asked = client.ask_ticket(done);
      const std::optional<std::int64_t> ticket = testing::ticket_of(client, asked);
      if (!ticket) break;
      done = {*ticket};
      const PortionTicket part = portion_ticket(*ticket, kPortionsOfTest);
      if (part.portion < kPortionsOfTest) {
        client.pull(point);
        const double loss = bowl_portion(part.portion, point, gradient);
        client.push_pull({.ticket = part.evaluation * kPortionsOfTest + part.portion,
                          .samples = 1,
                          .step_samples = kPortionsOfTest,
                          .loss = loss},
                         gradient, {});
        continue;
      }
      const Client::Coordinator known = client.coordinator();
      if (known.evaluation != part.evaluation) continue;
      CommandsOverServers store(client, mishaps);
      const auto state = compute::advance(compute::LbfgsState::from(known.numbers, kMethod), kMethod, store);
      client.advance({.evaluation = part.evaluation + 1,
                      .numbers = state.numbers(),
                      .ends = state.end != compute::LbfgsState::End::kNot});
    }
    const std::lock_guard lock(mutex_);
    numbers_ = client.coordinator().numbers;
    client.pull(point_);
  }
  // Runs a replica that restarts when it is killed.
  void work_on(int replica, Mishaps* mishaps) {
    for (std::int64_t incarnation = 1;; ++incarnation) try {
        return work(replica, incarnation, mishaps);
      } catch (const KilledReplica&) {
      }
  }
  // Runs all replicas to the end; the results are in numbers_ and point_.
  void run(int replicas, Mishaps* mishaps = nullptr) {
    point_.assign(spec().elements, 0.0F);
    std::vector<std::jthread> threads;
    threads.reserve(std::size_t(replicas));
    for (int i = 0; i < replicas; ++i) threads.emplace_back([=, this] { work_on(i, mishaps); });
  }

  fs::path folder_;
  ServerMap map_;
  std::atomic<int> filled_{0};
  std::vector<comm::ControlAddress> addresses_;
  std::vector<std::unique_ptr<Service>> services_;
  std::vector<std::unique_ptr<comm::ExchangeServer>> exchanges_;
  std::mutex mutex_;  // guards the map and the two below
  std::vector<double> numbers_;
  std::vector<float> point_;
};

TEST_F(VectorsTest, TheSameBitsForAnyNumberOfReplicasAndServersWhateverIsLost) {
  serve(1);
  run(1);
  const std::vector<double> expected = numbers_;
  const std::vector<float> point = point_;
  const auto state = compute::LbfgsState::from(expected, kMethod);
  EXPECT_EQ(state.end, compute::LbfgsState::End::kConverged);
  EXPECT_GT(state.iterations, 5);
  EXPECT_NEAR(point[4], 0.25, 0.05);
  end_servers();

  serve(2);
  run(3);
  EXPECT_EQ(numbers_, expected);
  EXPECT_EQ(point_, point);
  end_servers();

  // The first server has the ticket scheduler.
  serve(2);
  Mishaps mishaps;
  mishaps.before[9] = [] { throw KilledReplica(); };
  mishaps.before[14] = [&] { lose_server(0); };
  mishaps.before[18] = [&] { fill_another(); };
  mishaps.before[22] = [&] { lose_server(1); };
  mishaps.before[23] = [] { throw KilledReplica(); };
  run(2, &mishaps);
  EXPECT_TRUE(mishaps.before.empty());
  EXPECT_EQ(numbers_, expected);
  EXPECT_EQ(point_, point);
}

TEST_F(VectorsTest, ACommandIsDoneOnceAndGivesNumbersOfAllSlices) {
  serve(2);
  Client client = join(0);
  const std::vector<Operation> sum{{Op::kCopy, 1, 0, 0}, {Op::kAxpy, 1, 0, 0.5}, {Op::kDot, 1, 0, 0}};
  const std::vector<double> numbers = client.run(0, sum);
  EXPECT_EQ(numbers, std::vector<double>{1.5 * double(spec().elements)});
  const std::vector<Operation> doubled{{Op::kScale, 1, 1, 2}, {Op::kDot, 1, 0, 0}};
  EXPECT_EQ(client.run(1, doubled)[0], 2 * numbers[0]);
  EXPECT_EQ(client.run(1, doubled)[0], 2 * numbers[0]) << "sent twice";
  lose_server(0);
  EXPECT_EQ(client.run(1, doubled)[0], 2 * numbers[0]) << "by who was the backup";
  EXPECT_EQ(client.run(2, doubled)[0], 4 * numbers[0]);
}

TEST_F(VectorsTest, WhatCannotBeIsRefusedAndChangesNothing) {
  serve(1);
  Client client = join(0);
  const auto refused = [&](std::int64_t sequence, const Operation& operation) {
    EXPECT_THROW(client.run(sequence, std::vector{operation}), Error);
  };
  refused(0, {Op::kCopy, 99, 0, 0});
  refused(0, {Op::kScale, 0, 0, std::nan("")});
  refused(0, {Op::kScale, 0, 0, 1e300});  // infinite as a float
  refused(0, {Op::kAxpy, 0, 1, -1e39});
  refused(0, {Op::kCollect, 4, 4, 0});
  refused(5, {Op::kCopy, 1, 0, 0});
  EXPECT_THROW(client.advance({.evaluation = 2, .numbers = {}}), Error);
  EXPECT_THROW(client.advance({.evaluation = 1, .numbers = {1, 2}}), Error);
  std::vector<float> gradient(spec().elements);
  const auto push = [&](const Client::Push& push) { client.push_pull(push, gradient, {}); };
  EXPECT_THROW(push({.ticket = kPortionsOfTest, .samples = 1, .step_samples = 2}), Error) << "too early";
  EXPECT_THROW(push({.ticket = 0, .samples = 3, .step_samples = 2}), Error);
  for (const double loss : {std::nan(""), -std::numeric_limits<double>::infinity()})
    EXPECT_THROW(push({.ticket = 0, .samples = 1, .step_samples = 2, .loss = loss}), Error) << loss;
  EXPECT_EQ(client.run(0, std::vector<Operation>{{Op::kDot, 0, 0, 0}})[0], double(spec().elements));
  comm::SpaceSpec other = spec();
  other.vectors = 8;
  EXPECT_THROW(require_sound(other), Error);
  other = spec();
  other.mode = "async";
  EXPECT_THROW(require_sound(other), Error);
}

TEST_F(VectorsTest, TheSamePortionAgainAndAgainIsRefused) {
  serve(1);
  Client client = join(0);
  std::vector<float> gradient(spec().elements);
  const auto push = [&](std::int64_t ticket) {
    return client.push_pull({.ticket = ticket, .samples = 1, .step_samples = kPortionsOfTest}, gradient, {});
  };
  EXPECT_FALSE(push(0));
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(push(0));
  EXPECT_FALSE(push(1)) << "what is new counts";
  EXPECT_THROW(for (int i = 0; i < 100; ++i) push(0), Error);
}

// Every other portion: none finds its sibling.
TEST_F(VectorsTest, PortionsThatWaitForOthersCountInTheQuota) {
  serve(1);
  comm::SpaceSpec many = spec();
  many.job = "many";
  many.elements = comm::kSliceElements;
  many.parameters = {{.begin = 0, .count = many.elements}};
  many.portions = 64;
  many.tickets = 2 * (many.portions + 1);
  const std::vector<float> values(many.elements, 1.0F);
  const std::size_t one = many.elements * sizeof(float);
  Client client({.servers = addresses_, .spec = many, .deadline = 20s}, values.data());
  const std::size_t before = services_[0]->bytes();
  const auto push = [&](std::int64_t portion) {
    client.push({.ticket = portion, .samples = 1, .step_samples = many.portions}, values);
  };
  for (std::int64_t portion = 0; portion < 2 * 12; portion += 2) push(portion);
  EXPECT_EQ(services_[0]->bytes(), before + 4 * one) << "eight are counted from the beginning";
  for (std::int64_t portion = 1; portion < many.portions; portion += 2) push(portion);
  for (std::int64_t portion = 24; portion < many.portions; portion += 2) push(portion);
  client.run(0, std::vector<Operation>{{Op::kCollect, 1, 1, 0}});
  EXPECT_EQ(services_[0]->bytes(), before) << "of the next evaluation";
}

TEST_F(VectorsTest, PortionsBeyondTheQuotaAreRefused) {
  constexpr std::size_t kMost = std::size_t{64} << 20;
  comm::SpaceSpec many = spec();
  many.elements = comm::kSliceElements;
  many.parameters = {{.begin = 0, .count = many.elements}};
  many.portions = 128;
  many.tickets = 2 * (many.portions + 1);
  serve(1, kMost);
  const std::vector<float> values(many.elements, 1.0F);
  Client client({.servers = addresses_, .spec = many, .deadline = 20s}, values.data());
  const auto push_all = [&] {
    for (std::int64_t portion = 0; portion < many.portions; portion += 2)
      client.push({.ticket = portion, .samples = 1, .step_samples = many.portions}, values);
  };
  EXPECT_THROW(push_all(), Error);
  EXPECT_LE(services_[0]->bytes(), kMost);
  EXPECT_GT(services_[0]->bytes(), kMost - (std::size_t{2} << 20));
}

TEST_F(VectorsTest, WhoeverIsFreeGetsACopyOfWhatIsLeft) {
  serve(1);
  Client slow = join(0), fast = join(1);
  for (std::int64_t i = 0; i < kPortionsOfTest; ++i) {  // one by one: requests overtake each other
    Client::Asked asked = slow.ask_ticket({});
    EXPECT_EQ(testing::ticket_of(slow, asked), i);
  }
  Client::Asked copy = fast.ask_ticket({});
  EXPECT_EQ(testing::ticket_of(fast, copy), kPortionsOfTest - 1) << "a copy";
  std::vector<float> gradient(spec().elements);
  for (std::int64_t i = 0; i < kPortionsOfTest; ++i) {
    const Client::Push push{.ticket = i, .samples = 1, .step_samples = kPortionsOfTest};
    EXPECT_FALSE(fast.push_pull(push, gradient, {}));
    EXPECT_TRUE(slow.push_pull(push, gradient, {})) << "it counted already";
  }
  Client::Asked next = fast.ask_ticket({0, 1, 2, 3, 4, 5});
  EXPECT_EQ(testing::ticket_of(fast, next), coordinator_ticket(0, kPortionsOfTest));
}

}  // namespace
}  // namespace distbelief::server
