// The jobs that a server accepts, their lease, and their memory limits.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/server/client/client.h"
#include "distbelief/server/client/client_handle.h"
#include "distbelief/server/client/close_job.h"
#include "distbelief/server/client/map_plan.h"
#include "distbelief/server/service/service.h"
#include "distbelief/testing/test_servers.h"

namespace distbelief::server {
namespace {

using testing::ServiceTest;
using namespace std::chrono_literals;

TEST_F(ServiceTest, AJobThatIsTooLargeOrAnotherIsRefused) {
  serve(1, 8 << 20);
  Client client = join(0, spec("async"));
  comm::SpaceSpec other = spec("async");
  other.tickets = 7;
  EXPECT_THROW(join(1, other), Error) << "the same name, other settings";
  other.job = "larger";
  other.elements = 4 << 20;
  EXPECT_THROW(join(1, other), Error) << "beyond the quota";
  other = spec("async");
  other.job = "overlapping";
  other.parameters[1].begin = 10;
  EXPECT_THROW(join(1, other), Error);
  other = spec("async");
  other.job = "layerwise";
  other.optimizer.name = "lamb";
  EXPECT_THROW(join(1, other), Error);
}

// A job announced by another server is not refused to that server, which would take this one for broken, but
// to the job's replicas. A running job is refused to nobody.
TEST_F(ServiceTest, AJobThatIsTooLargeForOneServerOfTwoHarmsNeither) {
  lease_ = 1s;
  add_server();
  add_server(1 << 20);
  publish(first_map({{.id = 0, .target = addresses_[0].target}, {.id = 1, .target = addresses_[1].target}}));
  EXPECT_THROW(join(0, spec("async")), Error) << "three slices, on a server that takes one";
  for (int i = 0; i < 500 && services_[0]->jobs() + services_[1]->jobs() > 0; ++i)
    std::this_thread::sleep_for(10ms);
  EXPECT_EQ(services_[0]->jobs() + services_[1]->jobs(), 0U);
  comm::SpaceSpec small = spec("async");
  small.job = "small", small.elements = 2048, small.parameters[1].count = 1024;
  Client client = join(0, small);
  std::vector<float> values(small.elements), gradient(small.elements, 0.5F);
  EXPECT_FALSE(client.push_pull({.ticket = 0, .lr = 1}, gradient, values));
  lose_server(1);
  Client large = join(0, spec("async"));
  std::vector<float> all(spec("async").elements);
  add_server(1 << 20);
  publish(with_newcomer(map_, {.id = 2, .target = addresses_[2].target}));
  follow_plan({}, [&] { large.pull(all); });
  Client other = join(1, spec("async"));
  const std::vector<float> gradients(all.size(), 0.5F);
  EXPECT_FALSE(other.push_pull({.ticket = 0, .lr = 1}, gradients, all));
  EXPECT_EQ(all[0], 0.5F);
  EXPECT_EQ(apart_, 0);
}

TEST_F(ServiceTest, AJobThatIsAnotherOneOnEachServerIsOverAndHarmsNeither) {
  serve(2);
  comm::SpaceSpec here = spec("async"), there = spec("async");
  there.tickets = 7;
  comm::ExchangeClient replica({.address = addresses_[1], .name = "replica 0"});
  const auto open = [](comm::ExchangeClient& at, const comm::SpaceSpec& spec) {
    const std::string text = comm::encode(spec);
    at.send(comm::encode(comm::StoreRequest{.kind = comm::StoreRequest::Kind::kOpen}),
            std::as_bytes(std::span(text)), {})
        .wait(20s);
  };
  {  // before server 0 learns of it from server 1
    const ServerMap both = map_;
    publish(without_server(map_, 0));
    open(replica, there);
    ServerMap later = both;
    later.epoch = map_.epoch + 1;
    publish(later);
  }
  comm::ExchangeClient other({.address = addresses_[0], .name = "replica 0"});
  open(other, here);
  for (int i = 0; i < 500 && services_[1]->jobs() > 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(services_[1]->jobs(), 0U);
  comm::SpaceSpec honest = spec("async");
  honest.job = "honest";
  Client client = join(0, honest);
  std::vector<float> values(honest.elements), gradient(honest.elements, 0.5F);
  EXPECT_FALSE(client.push_pull({.ticket = 0, .lr = 1}, gradient, values));
  EXPECT_EQ(apart_, 0);
}

TEST_F(ServiceTest, MoreSmallParametersThanASliceCanTellItsBackupOfAreRefused) {
  serve(2);
  comm::SpaceSpec many = spec("async");
  many.elements = 1 << 16;
  many.parameters.clear();
  for (std::uint64_t i = 0; i < 8192; ++i) many.parameters.push_back({.begin = 4 * i, .count = 4});
  Client client = join(0, many);
  std::vector<float> values(many.elements), gradient(many.elements, 0.5F);
  EXPECT_FALSE(client.push_pull({.ticket = 0, .lr = 1}, gradient, values));
  add_server();
  publish(with_newcomer(map_, {.id = 2, .target = addresses_[2].target}));
  follow_plan({}, [&] { client.pull(values); });
  EXPECT_EQ(apart_, 0);
  many.job = "more";
  many.parameters.push_back({.begin = 4 * 8192, .count = 4});
  EXPECT_THROW(join(0, many), Error);
}

// The servers keep a copy of each replica's values.
TEST_F(ServiceTest, WithDelayCompensationReplicasTakeUpRoom) {
  serve(1, 10 << 20);
  comm::SpaceSpec compensated = spec("async");  // three slices: 3 MiB, of which a replica reads a bit over 2
  compensated.compensation = 0.1;
  std::vector<float> values(compensated.elements);
  std::vector<Client> clients;
  for (int replica = 0; replica < 3; ++replica) {
    clients.push_back(join(replica, compensated));
    clients.back().pull(values);
  }
  EXPECT_THROW(join(3, compensated).pull(values), Error);
  clients.pop_back();
  for (int i = 0; i < 500; ++i) try {
      join(3, compensated).pull(values);
      break;
    } catch (const Error& error) {
      ASSERT_LT(i, 499) << error.message();
      std::this_thread::sleep_for(10ms);
    }
}

TEST_F(ServiceTest, PartsOfAStepThatWaitForOthersTakeUpRoom) {
  serve(1, 14 << 20);  // three slices with their previous values and sums, 9 MiB, and parts of a bit over 2
  comm::SpaceSpec three = spec("sync");
  three.lanes = 4;
  const std::vector<float> gradient(three.elements, 0.5F);
  std::vector<Client> clients;
  for (int replica = 0; replica < 3; ++replica) clients.push_back(join(replica, three));
  std::vector<Client::Handle> parts;
  const auto send = [&](Client& client, std::int64_t lane) {
    return client.start_push(
        {.ticket = 0, .lr = 1, .first_lane = lane, .end_lane = lane + 1, .samples = 1, .step_samples = 4},
        gradient);
  };
  const std::size_t before = services_[0]->bytes();
  for (std::size_t replica = 0; replica < 2; ++replica) {
    const Client::Handle first = send(clients[replica], std::int64_t(replica));
    parts.push_back(send(clients[replica], std::int64_t(replica)));  // takes the room of the first
    const std::size_t wanted = before + (replica + 1) * gradient.size() * sizeof(float);
    for (int i = 0; i < 500 && services_[0]->bytes() != wanted; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(services_[0]->bytes(), wanted);
  }
  EXPECT_THROW(send(clients[2], 2).wait(), Error) << "beyond the quota";
}

// No replica speaks to one of the servers: the other tells it that the job lives.
TEST_F(ServiceTest, AJobThatNobodySpeaksForIsClosed) {
  lease_ = 1s;
  serve(2);
  const auto jobs = [&] { return services_[0]->jobs() + services_[1]->jobs(); };
  {
    comm::ExchangeClient replica({.address = addresses_[0], .name = "replica 0"});
    const std::string text = comm::encode(spec("async"));
    replica
        .send(comm::encode(comm::StoreRequest{.kind = comm::StoreRequest::Kind::kOpen}),
              std::as_bytes(std::span(text)), {})
        .wait(20s);
    for (int i = 0; i < 500 && jobs() < 2; ++i) std::this_thread::sleep_for(10ms);
    for (int i = 0; i < 250; ++i) {  // longer than the lease
      std::this_thread::sleep_for(10ms);
      ASSERT_EQ(jobs(), 2U);
    }
  }
  for (int i = 0; i < 500 && jobs() > 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(jobs(), 0U);
  Client again = join(0, spec("async"));
  EXPECT_EQ(jobs(), 2U) << "the name is free";
}

TEST_F(ServiceTest, AJobThatIsOverMakesRoomForAnother) {
  const std::size_t one = 3 * comm::kSliceElements * sizeof(float);  // values, in three slices; no momentum
  for (int i = 0; i < 2; ++i) add_server(std::size_t(-1), 2 * one);
  publish(first_map({{.id = 0, .target = addresses_[0].target}, {.id = 1, .target = addresses_[1].target}}));
  comm::SpaceSpec first = spec("async"), second = spec("async"), third = spec("async");
  first.job = "first", second.job = "second", third.job = "third";
  Client one_client = join(0, first), other_client = join(0, second);
  try {
    join(0, third);
    FAIL() << "there was no room";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(2 * one)), std::string::npos) << error.what();
  }
  close_job(addresses_, "first");
  Client third_client = join(0, third);
  std::vector<float> values(third.elements), gradient(third.elements, 0.5F);
  EXPECT_THROW(one_client.pull(values), Error) << "its space is gone";
  EXPECT_FALSE(other_client.push_pull({.ticket = 0, .lr = 1}, gradient, values));
  EXPECT_EQ(third_client.pull(values), 0);
  EXPECT_EQ(values[0], 1.0F) << "another job's update is not seen";
}

}  // namespace
}  // namespace distbelief::server
