#include "distbelief/mesh/allreduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/testing/thread_training.h"

namespace distbelief::mesh {
namespace {

struct Case {
  std::string name;
  OptimizerConfig optimizer;
  double clip_norm = 0;
};

std::vector<Case> cases() {
  std::vector<Case> all{{"plain", {}, 0}, {"momentum", {}, 0}, {"clipped", {}, 0.5},
                        {"adam", {}, 0},  {"lars", {}, 0},     {"lamb", {}, 1.5}};
  all[0].optimizer.momentum = 0;
  all[1].optimizer.weight_decay = 0.01;
  for (std::size_t i = 3; i < all.size(); ++i) {
    all[i].optimizer.name = all[i].name;
    all[i].optimizer.weight_decay = 0.02;
  }
  return all;
}

// Reference implementation of the same training: one lane, whole parameters, no shared arena.
std::vector<float> train_plainly(const testing::TrainingJob& job, const compute::Layout& layout) {
  const auto optimizer = compute::make_optimizer(job.optimizer);
  const auto* layerwise = dynamic_cast<const compute::LayerwiseOptimizer*>(optimizer.get());
  std::vector<float> arena = testing::first_parameters(layout);
  std::vector<std::vector<float>> states(compute::kMaxStates, std::vector<float>(arena.size()));
  for (std::int64_t step = 0; step < job.steps; ++step) {
    std::vector<std::vector<float>> gradients;
    double squares = 0;
    for (int p = 0; p < int(layout.entries().size()); ++p) {
      gradients.push_back(testing::lane_gradient(layout, arena.data(), step, 0, p));
      for (float value : gradients.back()) squares += double(value) * double(value);
    }
    const auto factor =
        job.clip_norm > 0 ? float(std::min(1.0, job.clip_norm / (std::sqrt(squares) + 1e-6))) : 1.0F;
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      for (float& value : gradients[p]) value *= factor;
      const std::size_t offset = layout.entries()[p].offset;
      compute::UpdateRange range{.parameters = arena.data() + offset,
                                 .gradients = gradients[p].data(),
                                 .states = {states[0].data() + offset, states[1].data() + offset},
                                 .count = gradients[p].size(),
                                 .lr = testing::kTrainingRate,
                                 .step = step + 1};
      if (layerwise) range.trust = layerwise->trust(layerwise->measure(range));
      optimizer->update(range);
    }
  }
  return arena;
}

class SameBits : public ::testing::TestWithParam<std::tuple<Case, Overlap>> {
 protected:
  static testing::TrainingJob job() {
    testing::TrainingJob made;
    made.optimizer = std::get<0>(GetParam()).optimizer;
    made.clip_norm = std::get<0>(GetParam()).clip_norm;
    made.overlap = std::get<1>(GetParam());
    return made;
  }

  static void expect_same_on_carriers(std::initializer_list<std::int64_t> lane_counts, int zero) {
    for (const std::int64_t lanes : lane_counts) {
      testing::TrainingJob alone = job();
      alone.lanes = lanes;
      alone.overlap = Overlap::kOff;
      const testing::TrainingOutcome reference = testing::train_on_threads(alone, {1});
      testing::TrainingJob shared = job();
      shared.lanes = lanes;
      shared.zero = zero;
      for (int carriers = 1; carriers <= 4; ++carriers)
        EXPECT_EQ(testing::train_on_threads(shared, {carriers}), reference)
            << lanes << " lanes on " << carriers;
    }
  }
};

TEST_P(SameBits, WithAnyNumberOfCarriers) { expect_same_on_carriers({4, 8}, 1); }
TEST_P(SameBits, WhenGradientsPassThroughAWindow) { expect_same_on_carriers({4, 7, 8}, 2); }

TEST_P(SameBits, WhenSomeCarriersHaveNoLanes) {
  const testing::TrainingOutcome reference = testing::train_on_threads(job(), {1});
  testing::TrainingJob shared = job();
  for (const std::vector<std::int64_t>& lanes :
       {std::vector<std::int64_t>{0, 4, 0}, {0, 1, 3}, {4, 0, 0}, {2, 0, 2}}) {
    shared.lanes_of_carriers = lanes;
    for (const int zero : {1, 2}) {
      shared.zero = zero;
      EXPECT_EQ(testing::train_on_threads(shared, {3}), reference) << "zero " << zero;
    }
  }
}

TEST_P(SameBits, AsPlainTrainingHasThem) {
  testing::TrainingJob given = job();
  given.lanes = 1;
  const std::vector<float> wanted =
      train_plainly(given, compute::Layout(testing::training_parameters(), given.bucket_bytes));
  const std::vector<float> found = testing::train_on_threads(given, {1}).parameters;
  if (AllreduceSharing::norm_rounds(*compute::make_optimizer(given.optimizer), given.clip_norm) == 0) {
    EXPECT_EQ(found, wanted);
    return;
  }
  // The last bits of a norm depend on the order of its sum: by blocks in the arena, sequential in the
  // reference.
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 2e-6) << i;
}

TEST_P(SameBits, WhenALaneIsEmptyAndAParameterGetsNoGradientFromSome) {
  testing::TrainingJob given = job();
  given.lanes = 5;
  given.occupied = [](std::int64_t step, std::int64_t lane) { return step != 2 || lane != 4; };
  given.gives = [](std::int64_t step, std::int64_t lane, int parameter) {
    return parameter == 1 ? lane == 0 : parameter != 2 || step > 1;
  };
  const testing::TrainingOutcome reference = testing::train_on_threads(given, {1});
  EXPECT_EQ(reference.update_counts, (std::vector<std::int64_t>{4, 4, 2, 4, 4, 4}));
  for (const int zero : {1, 2}) {
    given.zero = zero;
    for (int carriers = 2; carriers <= 4; ++carriers)
      EXPECT_EQ(testing::train_on_threads(given, {carriers}), reference) << "zero " << zero;
  }
}

INSTANTIATE_TEST_SUITE_P(Allreduce, SameBits,
                         ::testing::Combine(::testing::ValuesIn(cases()),
                                            ::testing::Values(Overlap::kUpdate, Overlap::kReduce,
                                                              Overlap::kOff, Overlap::kCheck)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_overlap_" +
                                  testing::to_string(std::get<1>(info.param));
                         });

TEST(Allreduce, AParameterWithoutGradientInAllLanesKeepsItsValueAndState) {
  for (Overlap overlap : {Overlap::kUpdate, Overlap::kReduce, Overlap::kOff}) {
    testing::TrainingJob job;
    job.optimizer.weight_decay = 0.1;
    job.overlap = overlap;
    job.gives = [](auto, auto, int parameter) { return parameter != 1; };
    const testing::TrainingOutcome outcome = testing::train_on_threads(job, {2});
    const compute::Layout layout(testing::training_parameters(), job.bucket_bytes);
    const std::vector<float> start = testing::first_parameters(layout);
    for (int p = 0; p < int(layout.entries().size()); ++p) {
      const compute::Entry& entry = layout.entries()[std::size_t(p)];
      const bool same = std::equal(start.begin() + std::ptrdiff_t(entry.offset),
                                   start.begin() + std::ptrdiff_t(entry.offset + entry.count),
                                   outcome.parameters.begin() + std::ptrdiff_t(entry.offset));
      EXPECT_EQ(same, p == 1) << entry.name;
      EXPECT_EQ(outcome.update_counts[std::size_t(p)], p == 1 ? 0 : job.steps);
    }
    EXPECT_EQ(outcome.states[0][layout.entries()[1].offset], 0);
  }
}

TEST(Allreduce, ClippingHoldsTheGradientToItsNorm) {
  testing::TrainingJob job;
  job.optimizer.momentum = 0;
  job.steps = 1;
  job.clip_norm = 0.25;
  const testing::TrainingOutcome clipped = testing::train_on_threads(job, {2});
  const compute::Layout layout(testing::training_parameters(), job.bucket_bytes);
  const std::vector<float> start = testing::first_parameters(layout);
  double squares = 0;
  for (std::size_t i = 0; i < start.size(); ++i)
    squares += std::pow((start[i] - clipped.parameters[i]) / 0.05, 2);
  EXPECT_GT(clipped.gradient_norm, 1);
  EXPECT_NEAR(std::sqrt(squares), 0.25, 1e-4);
}

// Runs each carrier's part of a step on private memory; the small part of a host that the tests below need.
class SmallHost {
 public:
  SmallHost(int carriers, std::chrono::nanoseconds deadline,
            std::vector<compute::Layout::Parameter> parameters)
      : layout_(parameters, 4096),
        plan_(plan_lanes(carriers, {carriers}, 1)) {
    OptimizerConfig config;
    config.momentum = 0;
    optimizer_ = compute::make_optimizer(config);
    const SharedState::Shape shape{
        .layout = &layout_, .plan = &plan_, .host = 0, .states = 0, .buffers = 2, .keeps_sums = false};
    state_ = std::make_unique<SharedState>(
        shape, comm::SharedSegment::map_private(SharedState::bytes_needed(shape)));
    for (int c = 0; c < carriers; ++c) {
      domains_.push_back(std::make_unique<comm::HostDomain>(state_->domain(),
                                                            comm::HostDomain::Options{.member = c,
                                                                                      .members = carriers,
                                                                                      .first_rank = 10,
                                                                                      .members_per_rank = 1,
                                                                                      .deadline = deadline}));
      AllreduceSharing::Options options;
      options.layout = &layout_;
      options.plan = &plan_;
      options.state = state_.get();
      options.domain = domains_.back().get();
      options.optimizer = optimizer_.get();
      options.buffers = 2;
      sharings_.push_back(std::make_unique<AllreduceSharing>(std::move(options)));
    }
  }

  void take_step(int carrier, const StepPlan& step, const std::vector<float>& gradient,
                 const std::vector<float>& buffers) {
    AllreduceSharing& sharing = *sharings_[std::size_t(carrier)];
    sharing.begin_step(step);
    sharing.begin_lane(carrier);
    std::copy(buffers.begin(), buffers.end(), sharing.lane_buffers().begin());
    sharing.gradient(0, gradient.data());
    sharing.end_lane();
    sharing.end_step();
  }

  AllreduceSharing& sharing(int carrier) { return *sharings_[std::size_t(carrier)]; }
  comm::HostDomain& domain(int carrier) { return *domains_[std::size_t(carrier)]; }
  float* parameters() { return state_->parameters(); }

 private:
  compute::Layout layout_;
  LanePlan plan_;
  std::unique_ptr<compute::Optimizer> optimizer_;
  std::unique_ptr<SharedState> state_;
  std::vector<std::unique_ptr<comm::HostDomain>> domains_;
  std::vector<std::unique_ptr<AllreduceSharing>> sharings_;
};

// theta' = theta - eta / m * sum of g_i, for m = 3 workers with one sample each.
TEST(Allreduce, UpdateIsTheParameterLessTheMeanGradientTimesTheRate) {
  SmallHost host(3, std::chrono::seconds(60), {{"theta", {4}}});
  const std::vector<float> theta{1, -2, 0.5F, 8};
  const std::vector<std::vector<float>> gradients{{3, 0, -1.5F, 6}, {1.5F, 9, 3, 0}, {-6, 3, 1.5F, -3}};
  std::copy(theta.begin(), theta.end(), host.parameters());
  const std::vector<std::int64_t> samples{1, 1, 1};
  std::vector<std::jthread> threads;
  for (int c = 0; c < 3; ++c)
    threads.emplace_back([&, c] {
      std::vector<float> part = gradients[std::size_t(c)];
      for (float& value : part) value /= 3;
      host.take_step(c, {.step = 0, .lr = 0.25, .lane_samples = samples}, part, {float(c), 1});
    });
  threads.clear();
  // Sums: -1.5, 12, 3, 3; times 0.25 / 3.
  const double wanted[] = {1 + 0.125, -2 - 1, 0.5 - 0.25, 8 - 0.25};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(host.parameters()[i], wanted[i], 1e-6) << i;
}

// The same for a batch of 7. Whether one lane has all samples or three lanes have 3, 2 and 2, each hands in
// the sum of its samples' gradients divided by 7. A mean of the lanes' own means would give another update.
TEST(Allreduce, LanesOfUnequalSamplesUpdateAsOneLaneWithAllOfThem) {
  const std::vector<float> theta{1, -1};
  // Squared errors of y = theta x: g = (theta x - y) x.
  const std::vector<std::vector<float>> x{{1, 0}, {0, 1}, {2, 1}, {1, 1}, {-1, 2}, {3, 0}, {0, 2}};
  const std::vector<float> y{0, 1, 0, -3, -1, 4, -4};
  const std::vector<std::vector<std::int64_t>> cuts{{7}, {3, 2, 2}};
  for (const std::vector<std::int64_t>& samples : cuts) {
    const auto lanes = int(samples.size());
    SmallHost host(lanes, std::chrono::seconds(60), {{"theta", {2}}});
    std::copy(theta.begin(), theta.end(), host.parameters());
    std::vector<std::vector<float>> parts(samples.size(), std::vector<float>(2));
    std::size_t sample = 0;
    for (std::size_t lane = 0; lane < samples.size(); ++lane)
      for (std::int64_t i = 0; i < samples[lane]; ++i, ++sample) {
        const float error = theta[0] * x[sample][0] + theta[1] * x[sample][1] - y[sample];
        for (std::size_t j = 0; j < 2; ++j) parts[lane][j] += error * x[sample][j] / 7;
      }
    std::vector<std::jthread> threads;
    for (int lane = 0; lane < lanes; ++lane)
      threads.emplace_back([&, lane] {
        host.take_step(lane, {.step = 0, .lr = 0.7, .lane_samples = samples}, parts[std::size_t(lane)],
                       {0, 0});
      });
    threads.clear();
    // The gradients (1, 0), (0, -2), (2, 1), (3, 3), (2, -4), (-3, 0), (0, 4) sum to (5, 2), times 0.7 / 7.
    EXPECT_NEAR(host.parameters()[0], 1 - 0.5, 1e-6) << lanes << " lanes";
    EXPECT_NEAR(host.parameters()[1], -1 - 0.2, 1e-6) << lanes << " lanes";
  }
}

TEST(Allreduce, AParametersFactorIsOfItsRateAlone) {
  testing::TrainingJob job;
  job.steps = 1;
  job.optimizer.momentum = 0;
  const testing::TrainingOutcome plain = testing::train_on_threads(job, {2});
  job.lr_factors = {0.5};  // the others have 1
  const testing::TrainingOutcome slow = testing::train_on_threads(job, {2});
  EXPECT_EQ(testing::train_on_threads(job, {3}), slow);
  const compute::Layout layout(testing::training_parameters(), job.bucket_bytes);
  const std::vector<float> start = testing::first_parameters(layout);
  for (const compute::Segment& segment : layout.segments())
    for (std::size_t i = segment.span.begin; i < segment.span.end; ++i) {
      const float wanted =
          segment.parameter == 0 ? (start[i] + plain.parameters[i]) / 2 : plain.parameters[i];
      ASSERT_NEAR(slow.parameters[i], wanted, segment.parameter == 0 ? 1e-6 : 0) << i;
    }
}

TEST(Allreduce, LaneValuesAreAveragedOverTheLanesWithSamples) {
  SmallHost host(3, std::chrono::seconds(60), {{"theta", {1}}});
  const std::vector<std::int64_t> samples{4, 0, 4};
  std::vector<std::jthread> threads;
  for (int c = 0; c < 3; ++c)
    threads.emplace_back([&, c] {
      host.take_step(c, {.step = 0, .lr = 0.1, .lane_samples = samples}, {0},
                     {float(c + 1), 1000.0F * float(c)});
    });
  threads.clear();
  for (int c = 0; c < 3; ++c) {
    EXPECT_EQ(host.sharing(c).mean_buffers()[0], 2);
    EXPECT_EQ(host.sharing(c).mean_buffers()[1], 1000);
  }
}

TEST(Allreduce, ACarrierThatNeverArrivesIsNamedWithOperationAndStep) {
  SmallHost host(2, std::chrono::milliseconds(80), {{"theta", {2000}}});
  const std::vector<std::int64_t> samples{1, 1};
  const std::vector<float> gradient(2000, 1.0F);
  try {
    host.take_step(0, {.step = 7, .lr = 0.1, .lane_samples = samples}, gradient, {0, 0});
    FAIL() << "carrier 1 took no part";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_EQ(error.where().rank, 11);
    EXPECT_EQ(error.where().operation, "compute gradients");
    EXPECT_EQ(error.where().step, 7);
    EXPECT_NE(std::string(error.what()).find("worker 11"), std::string::npos) << error.what();
  }
}

TEST(Allreduce, AFailedCarrierEndsTheWaitOfTheOthersLongBeforeTheDeadline) {
  SmallHost host(2, std::chrono::minutes(10), {{"theta", {2000}}});
  const std::vector<std::int64_t> samples{1, 1};
  const std::vector<float> gradient(2000, 1.0F);
  const auto begin = std::chrono::steady_clock::now();
  std::jthread failing([&] { host.domain(1).abort().set(11, "out of paper"); });
  try {
    host.take_step(0, {.step = 7, .lr = 0.1, .lane_samples = samples}, gradient, {0, 0});
    FAIL() << "carrier 1 took no part";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kAborted);
    EXPECT_NE(std::string(error.what()).find("worker 11 failed: out of paper"), std::string::npos)
        << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace distbelief::mesh
