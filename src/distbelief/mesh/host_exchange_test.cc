#include "distbelief/mesh/host_exchange.h"

#include <gtest/gtest.h>

#include <cmath>

#include "distbelief/base/error.h"
#include "distbelief/testing/thread_link.h"
#include "distbelief/testing/thread_training.h"

namespace distbelief::mesh {
namespace {

using comm::Algorithm;
using Hosts = std::vector<int>;  // carriers of each host

const std::vector<Hosts>& worlds() {
  static const std::vector<Hosts> all{{1, 1}, {2, 1}, {1, 3}, {1, 1, 1}, {1, 2, 1}};
  return all;
}

testing::TrainingJob job_with(const std::string& optimizer, double clip_norm, Overlap overlap,
                              Algorithm algorithm) {
  testing::TrainingJob job;
  job.optimizer.name = optimizer;
  job.optimizer.weight_decay = 0.01;
  job.clip_norm = clip_norm;
  job.overlap = overlap;
  job.algorithm = algorithm;
  job.lanes = 8;
  return job;
}

class SeveralHosts : public ::testing::TestWithParam<std::tuple<const char*, Overlap>> {};

TEST_P(SeveralHosts, DirectAndCentralGiveTheBitsOfOneHost) {
  const auto [optimizer, overlap] = GetParam();
  for (double clip_norm : {0.0, 0.5}) {
    const testing::TrainingOutcome alone =
        testing::train_on_threads(job_with(optimizer, clip_norm, Overlap::kOff, Algorithm::kDirect), {1});
    for (const Hosts& hosts : worlds())
      for (Algorithm algorithm : {Algorithm::kDirect, Algorithm::kCentral})
        for (const int zero : {1, 2, 3}) {
          testing::TrainingJob job = job_with(optimizer, clip_norm, overlap, algorithm);
          job.zero = zero;
          EXPECT_EQ(testing::train_on_threads(job, hosts), alone)
              << to_string(algorithm) << " on " << hosts.size() << " hosts, clip " << clip_norm << ", zero "
              << zero;
        }
  }
}

TEST_P(SeveralHosts, AHostWithoutLanesChangesNoBits) {
  const auto [optimizer, overlap] = GetParam();
  const testing::TrainingOutcome alone =
      testing::train_on_threads(job_with(optimizer, 0.5, Overlap::kOff, Algorithm::kDirect), {1});
  for (const Algorithm algorithm : {Algorithm::kDirect, Algorithm::kCentral, Algorithm::kRing})
    for (const bool first_rests : {true, false}) {
      testing::TrainingJob job = job_with(optimizer, 0.5, overlap, algorithm);
      job.zero = first_rests ? 1 : 3;
      job.lanes_of_carriers = {job.lanes / 2, job.lanes - job.lanes / 2};
      job.lanes_of_carriers.insert(first_rests ? job.lanes_of_carriers.begin() : job.lanes_of_carriers.end(),
                                   0);
      const testing::TrainingOutcome found =
          testing::train_on_threads(job, first_rests ? Hosts{1, 2} : Hosts{2, 1});
      if (algorithm != Algorithm::kRing) {
        EXPECT_EQ(found, alone) << to_string(algorithm);
      }
      EXPECT_EQ(found.update_counts, alone.update_counts);
      for (std::size_t i = 0; i < found.parameters.size(); ++i)
        ASSERT_NEAR(found.parameters[i], alone.parameters[i], 1e-3) << to_string(algorithm);
    }
}

TEST_P(SeveralHosts, RingComesClose) {
  const auto [optimizer, overlap] = GetParam();
  const testing::TrainingJob job = job_with(optimizer, 0.5, overlap, Algorithm::kRing);
  const testing::TrainingOutcome alone = testing::train_on_threads(job, {1});
  for (const Hosts& hosts : worlds()) {
    const testing::TrainingOutcome found = testing::train_on_threads(job, hosts);
    EXPECT_EQ(found.update_counts, alone.update_counts);
    EXPECT_EQ(found.mean_buffers, alone.mean_buffers);
    double worst = 0;
    for (std::size_t i = 0; i < found.parameters.size(); ++i)
      worst = std::max(worst, double(std::abs(found.parameters[i] - alone.parameters[i])));
    // Adam and LAMB divide by the root of a second moment, which magnifies the last bits of small gradients.
    EXPECT_LT(worst, 1e-3) << hosts.size() << " hosts";
  }
}

std::string name_of(const ::testing::TestParamInfo<SeveralHosts::ParamType>& info) {
  return std::string(std::get<0>(info.param)) + "_overlap_" + testing::to_string(std::get<1>(info.param));
}

// Runs one per-parameter rule and one with layer norms in every overlap mode, the other rules in one.
INSTANTIATE_TEST_SUITE_P(HostExchange, SeveralHosts,
                         ::testing::Combine(::testing::Values("sgd", "lamb"),
                                            ::testing::Values(Overlap::kUpdate, Overlap::kReduce,
                                                              Overlap::kOff, Overlap::kCheck)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(OtherRules, SeveralHosts,
                         ::testing::Combine(::testing::Values("adam", "lars"),
                                            ::testing::Values(Overlap::kUpdate)),
                         name_of);

TEST(HostExchange, AGradientFromAnotherHostAloneUpdatesTheParameterEverywhere) {
  for (Overlap overlap : {Overlap::kUpdate, Overlap::kOff}) {
    testing::TrainingJob job = job_with("sgd", 0, overlap, Algorithm::kDirect);
    job.gives = [](auto, std::int64_t lane, int parameter) {
      return parameter == 1 ? lane == 7 : parameter != 4;
    };
    const testing::TrainingOutcome alone = testing::train_on_threads(job, {1});
    EXPECT_EQ(alone.update_counts, (std::vector<std::int64_t>{4, 4, 4, 4, 0, 4}));
    for (const Hosts& hosts : worlds()) EXPECT_EQ(testing::train_on_threads(job, hosts), alone);
  }
}

// The second host's only carrier fails in its step 1; the first host must name the rank that it waited for.
TEST(HostExchange, AHostThatGoesSilentIsNamedByTheOthers) {
  testing::TrainingJob job = job_with("sgd", 0, Overlap::kOff, Algorithm::kDirect);
  job.deadline = std::chrono::milliseconds(150);
  job.gives = [](std::int64_t step, std::int64_t lane, int) {
    if (step == 1 && lane == 7) throw Error(ErrorCode::kInternal, "the last lane broke");
    return true;
  };
  try {
    testing::train_on_threads(job, {1, 1});
    FAIL() << "the last lane broke";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("rank 1 did not send [in tell which parameters have gradients] [step 1]"),
              std::string::npos)
        << text;
  }
}

// The exchange of the first of two hosts, with two carriers whose signals a test raises by hand. The other
// host never sends anything.
class LoneExchange {
 public:
  explicit LoneExchange(std::chrono::milliseconds deadline)
      : state_(shape(), comm::SharedSegment::map_private(SharedState::bytes_needed(shape()))),
        domain_(state_.domain(), {.member = 0, .members = 2, .first_rank = 10, .deadline = deadline}),
        leaders_(std::make_unique<testing::ThreadLink>(hub_, 0, 2, comm::host_deadline(deadline, 2)),
                 Algorithm::kDirect),
        exchange_({.layout = &layout_,
                   .plan = &plan_,
                   .state = &state_,
                   .abort = &domain_.abort(),
                   .leaders = &leaders_,
                   .first_rank = 10,
                   .deadline = deadline}) {}

  HostExchange& exchange() { return exchange_; }
  comm::HostDomain& domain() { return domain_; }
  HostSignals& host() { return state_.host(); }
  void reduce(int carrier, int buckets) { state_.carrier(carrier).reduced.raise(std::uint32_t(buckets)); }
  int buckets() const { return int(layout_.buckets().size()); }

 private:
  SharedState::Shape shape() const {
    return {.layout = &layout_, .plan = &plan_, .host = 0, .states = 0, .keeps_sums = true};
  }

  compute::Layout layout_{testing::training_parameters(), 4096};
  LanePlan plan_ = plan_lanes(3, {2, 1}, 1);
  SharedState state_;
  comm::HostDomain domain_;
  testing::ThreadHub hub_;
  comm::LinkCommunicator leaders_;
  HostExchange exchange_;
};

Error failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "it did not fail"};
}

// The carrier stops between its last gradient and its part of the sum. The error must name it: otherwise the
// other hosts blame its leader, and the leader blames itself.
TEST(HostExchange, ACarrierThatDoesNotSumUpIsNamedToTheLeaderWhoThrowsThat) {
  LoneExchange lone(std::chrono::milliseconds(100));
  lone.exchange().start_step(0, 7);
  lone.reduce(0, lone.buckets());
  const Error found = failure_of([&] {
    lone.domain().patient_waiter().wait(lone.host().exchanged, 1, {.rank = 10, .operation = "exchange"});
  });
  EXPECT_EQ(found.code(), ErrorCode::kTimeout) << found.what();
  EXPECT_EQ(found.where().rank, 11) << found.what();
  EXPECT_EQ(found.where().operation, "reduce gradients");
  EXPECT_EQ(found.where().step, 7);
  EXPECT_STREQ(failure_of([&] { lone.exchange().finish_step(); }).what(), found.what());
  const comm::Waiter others(lone.domain().abort(), std::chrono::seconds(60), {}, 11);
  const Error consequence =
      failure_of([&] { others.wait(lone.host().exchanged, 1, {.rank = 10, .operation = "exchange"}); });
  EXPECT_EQ(consequence.code(), ErrorCode::kAborted);
  EXPECT_EQ(consequence.message(), "stopped because worker 10 failed: " + std::string(found.what()));
}

TEST(HostExchange, WaitsForItsCarriersAsLongAsTheLeaderComputes) {
  constexpr std::chrono::milliseconds kDeadline(100);
  LoneExchange lone(kDeadline);
  lone.exchange().start_step(0, 7);
  lone.reduce(0, 1);  // its backward continues
  const comm::Waiter patient(lone.domain().abort(), 3 * kDeadline, {}, 10);
  const Error none =
      failure_of([&] { patient.wait(lone.host().exchanged, 1, {.rank = 99, .operation = "exchange"}); });
  EXPECT_EQ(none.where().rank, 99) << "the exchange gave up before: " << none.what();
  lone.reduce(0, lone.buckets());
  EXPECT_EQ(failure_of([&] { lone.exchange().finish_step(); }).where().rank, 11);
}

TEST(HostExchange, StopsPublishTwoSumsLateWithEarlyUpdate) {
  using Kind = ExchangeStop::Kind;
  const auto kinds = [](const std::vector<ExchangeStop>& stops) {
    std::string text;
    for (const ExchangeStop& stop : stops) {
      const char* names[] = {"s", "n", "p", "b"};
      text += names[int(stop.kind)];
      if (stop.kind == Kind::kSum || stop.kind == Kind::kPublish) text += std::to_string(stop.bucket);
    }
    return text;
  };
  EXPECT_EQ(kinds(exchange_stops(4, true, 0)), "s0s1s2p0s3p1bp2p3");
  EXPECT_EQ(kinds(exchange_stops(3, false, 2)), "s0s1s2nnbp0p1p2");
  EXPECT_EQ(kinds(exchange_stops(1, true, 0)), "s0bp0");
}

TEST(HostExchange, CentralGivesAllToTheFirstHostAndOthersShareInBlocks) {
  const compute::Span bucket{2048, 2048 + 5 * compute::kBlock};
  EXPECT_EQ(host_chunk(bucket, Algorithm::kCentral, 2, 0).size(), bucket.size());
  EXPECT_EQ(host_chunk(bucket, Algorithm::kCentral, 2, 1).size(), 0U);
  std::size_t next = bucket.begin;
  for (int h = 0; h < 3; ++h) {
    const compute::Span chunk = host_chunk(bucket, Algorithm::kDirect, 3, h);
    EXPECT_EQ(chunk.begin, next);
    EXPECT_EQ(chunk.begin % compute::kBlock, 0U);
    next = chunk.end;
  }
  EXPECT_EQ(next, bucket.end);
}

}  // namespace
}  // namespace distbelief::mesh
