#include "distbelief/elastic/tracked.h"

#include <gtest/gtest.h>

#include <optional>
#include <sstream>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/comm/mpi/world.h"
#include "distbelief/run/state_file.h"
#include "distbelief/train/pipeline_parallel.h"

namespace distbelief::elastic {
namespace {

constexpr std::size_t kSamples = 67, kBatch = 16;  // the last batch of an epoch has 3

// Initializes MPI once for all tests of this program and finalizes it, so that no files remain.
class Mpi : public ::testing::Environment {
 public:
  void SetUp() override { world_.emplace(World::create()); }
  void TearDown() override { world_->close(); }

 private:
  std::optional<World> world_;
};
[[maybe_unused]] const ::testing::Environment* const mpi = ::testing::AddGlobalTestEnvironment(new Mpi);

// A small loop on one worker, and its result.
struct Loop {
  std::vector<std::vector<std::size_t>> batches;
  std::string weights;
};

Loop run_loop(const std::filesystem::path& folder, std::int64_t steps) {
  World world = world_from(MPI_COMM_SELF);
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(3, 4), torch::nn::Dropout(0.5), torch::nn::Linear(4, 1));
  torch::optim::Adam optimizer(net->parameters(), 0.01);
  EpochSampler sampler(world, kSamples, kBatch, 5);
  Tracked run(world, *net, optimizer, sampler,
              {.folder = folder, .checkpoint_every = std::chrono::milliseconds(1)});
  Loop loop;
  while (run.step() < steps) {
    sampler.reset();
    while (auto indices = run.step() < steps ? sampler.next(0) : c10::nullopt) {
      EXPECT_EQ(run.share().samples, std::int64_t(indices->size()));
      loop.batches.push_back(*indices);
      optimizer.zero_grad();
      net->forward(torch::randn({std::int64_t(indices->size()), 3}) + double(indices->front()))
          .mean()
          .backward();
      optimizer.step();
      EXPECT_TRUE(run.commit());
    }
  }
  loop.weights = run::weights_sha256(*net);
  EXPECT_EQ(run.leave(), 0);
  return loop;
}

TEST(EpochSampler, GoesOnAtAnyBatchAndThenBeginsTheNextEpoch) {
  World world = World::create();
  EpochSampler whole(world, kSamples, kBatch, 5), later(world, kSamples, kBatch, 5);
  for (int epoch = 0; epoch < 3; ++epoch) whole.reset();
  std::vector<std::vector<std::size_t>> wanted, found;
  while (auto indices = whole.next(0)) wanted.push_back(*indices);
  later.resume_at(2, 3);
  later.reset();
  while (auto indices = later.next(0)) found.push_back(*indices);
  EXPECT_EQ(found, (std::vector<std::vector<std::size_t>>{wanted.begin() + 3, wanted.end()}));
  whole.reset();
  later.reset();
  EXPECT_EQ(later.next(0), whole.next(0));
  EXPECT_THROW(later.resume_at(0, 5), Error);
}

// A stand-in data set: each sample is its index.
struct Numbers : torch::data::Dataset<Numbers, std::size_t> {
  std::size_t get(std::size_t index) override { return index; }
  c10::optional<std::size_t> size() const override { return kSamples; }
};

template <typename T>
torch::serialize::InputArchive saved(const T& object) {
  torch::serialize::OutputArchive archive;
  object.save(archive);
  std::stringstream bytes;
  archive.save_to(bytes);
  torch::serialize::InputArchive back;
  back.load_from(bytes);
  return back;
}

TEST(EpochSampler, LoadedInTheMiddleOfAnEpochALoaderDealsOutTheRestOfIt) {
  World world = World::create();
  EpochSampler whole(world, kSamples, kBatch, 5);
  whole.reset();
  whole.next(0);
  whole.next(0);
  torch::serialize::InputArchive archive = saved(whole);
  EpochSampler loaded(world, kSamples, kBatch, 5);
  loaded.load(archive);
  auto loader = torch::data::make_data_loader(Numbers(), loaded, kBatch);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const std::vector<std::size_t>& batch : *loader) EXPECT_EQ(batch, whole.next(0));
    EXPECT_EQ(whole.next(0), c10::nullopt) << "epoch " << epoch;
    whole.reset();
  }
  EpochSampler placed(world, kSamples, kBatch, 5);
  placed.resume_at(0, 2);
  EXPECT_EQ(loaded.next(0), placed.next(0)) << "without a loader it goes on there too";
}

// One of `workers` deals out `steps` batches, saves, and loads the state into `into`.
void hand_over(std::size_t workers, std::size_t batch, int steps, EpochSampler& into) {
  EpochSampler from({.rank = 0, .workers = workers}, kSamples, batch, 5);
  from.reset();
  for (int i = 0; i < steps; ++i) from.next(0);
  torch::serialize::InputArchive archive = saved(from);
  into.load(archive);
}

TEST(EpochSampler, LoadedByMoreWorkersDealsOutTheRestOrRefuses) {
  // 67 samples: one worker has a fifth batch of 3, four workers have a fourth one of 19.
  std::vector<std::size_t> rest;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EpochSampler one({.rank = rank, .workers = 4}, kSamples, kBatch, 5);
    hand_over(1, kBatch, 3, one);
    one.reset();
    const auto indices = one.next(0);
    ASSERT_TRUE(indices);
    rest.insert(rest.end(), indices->begin(), indices->end());
    EXPECT_EQ(one.next(0), c10::nullopt);
  }
  EXPECT_EQ(rest.size(), kSamples - 3 * kBatch);
  EpochSampler four({.rank = 0, .workers = 4}, kSamples, kBatch, 5), alone({}, kSamples, kBatch, 5);
  EXPECT_THROW(hand_over(1, kBatch, 4, four), Error) << "3 samples are left";
  EXPECT_THROW(hand_over(1, 8, 3, four), Error) << "batches of another size";
  EpochSampler more({}, kSamples + 1, kBatch, 5);
  EXPECT_THROW(hand_over(1, kBatch, 2, more), Error) << "other data";
  hand_over(4, kBatch, 4, alone);  // its whole epoch
  EpochSampler next({}, kSamples, kBatch, 5);
  next.reset();
  next.reset();
  alone.reset();
  EXPECT_EQ(alone.next(0), next.next(0));
}

TEST(EpochSampler, NeverBegunItIsTheSameAfterLoading) {
  EpochSampler fresh({}, kSamples, kBatch, 5);
  torch::serialize::InputArchive archive = saved(fresh);
  EpochSampler loaded({}, kSamples, kBatch, 5);
  loaded.load(archive);
  EXPECT_EQ(loaded.next(0), fresh.next(0));
  for (std::size_t i = 1; i < fresh.steps_per_epoch(); ++i) fresh.next(0);
  torch::serialize::InputArchive ended = saved(fresh);
  loaded.load(ended);
  EXPECT_EQ(loaded.next(0), c10::nullopt);
}

TEST(EpochSampler, LoadsWhatAnEarlierVersionSaved) {
  const auto loaded = [](std::int64_t epoch, std::int64_t step) {
    torch::serialize::OutputArchive archive;
    archive.write("position", torch::tensor({epoch, step}), /*is_buffer=*/true);
    std::stringstream bytes;
    archive.save_to(bytes);
    torch::serialize::InputArchive back;
    back.load_from(bytes);
    EpochSampler sampler({}, kSamples, kBatch, 5);
    sampler.load(back);
    return sampler;
  };
  EpochSampler fresh({}, kSamples, kBatch, 5);
  EXPECT_EQ(loaded(-1, 0).next(0), fresh.next(0));
  EXPECT_EQ(loaded(0, 1).next(0), fresh.next(0));
  EXPECT_EQ(loaded(0, std::int64_t(fresh.steps_per_epoch())).next(0), c10::nullopt);
  EXPECT_THROW(loaded(0, std::int64_t(fresh.steps_per_epoch()) + 1), Error);
}

TEST(OwnLoops, StateWithoutMomentumIsNotTakenForOneThatHasIt) {
  World world = World::create();
  const auto wrapped = [&](double momentum) {
    return std::make_unique<DataParallel>(
        world, std::make_shared<torch::nn::LinearImpl>(3, 2),
        DataParallel::Options{.optimizer = {.name = "sgd", .momentum = momentum}});
  };
  for (const double before : {0.0, 0.9})
    for (const double now : {0.0, 0.9}) {
      torch::serialize::InputArchive archive = saved(*wrapped(before));
      if (before == now)
        EXPECT_NO_THROW(wrapped(now)->load(archive));
      else
        EXPECT_THROW(wrapped(now)->load(archive), Error);
    }
}

TEST(OwnLoops, RefuseARuleThatNeedsACoordinator) {
  World world = World::create();
  const auto net = std::make_shared<torch::nn::LinearImpl>(3, 2);
  EXPECT_THROW(DataParallel(world, net, {.optimizer = {.name = "lbfgs"}}), Error);
  EXPECT_THROW(PipelineParallel(world, torch::nn::Sequential(net), {}, {.optimizer = {.name = "lbfgs"}}),
               Error);
}

TEST(EpochSampler, CannotGoOnBeforeALastBatchThatIsTooSmallForMoreWorkers) {
  World world = World::create();
  const EpochSampler sampler(world, kSamples, kBatch, 5);
  ASSERT_EQ(sampler.steps_per_epoch(), 5U);
  for (const std::size_t step : {0, 1, 2, 3}) EXPECT_TRUE(sampler.can_resume_at(step)) << step;
  EXPECT_FALSE(sampler.can_resume_at(4));
}

// Its second weight is larger than a bucket, so it is final long before backward reaches the first.
struct LateReader : torch::nn::Module {
  torch::Tensor first = register_parameter("first", torch::ones({2'000'000}));
  torch::Tensor second = register_parameter("second", torch::ones({2'000'000}));
  torch::Tensor forward(bool detached) {
    const torch::Tensor other = detached ? second.detach() : second;
    const torch::Tensor product = (first * other).mean();
    return product + second.mean();  // recorded last, so backward begins here
  }
};

TEST(DataParallel, ShowsAParameterThatIsReadTooLateWhenOverlapIsChecked) {
  World world = World::create();
  const auto trains = [&](mesh::Overlap overlap, bool detached) {
    const auto net = std::make_shared<LateReader>();
    DataParallel parallel(world, net, {.optimizer = {.name = "sgd", .lr = 0.1}, .overlap = overlap});
    parallel.backward(net->forward(detached));
    parallel.step();
    return net->first.isfinite().all().item<bool>() && net->second.isfinite().all().item<bool>();
  };
  EXPECT_TRUE(trains(mesh::Overlap::kReduce, true));
  EXPECT_TRUE(trains(mesh::Overlap::kCheck, false));
  EXPECT_FALSE(trains(mesh::Overlap::kCheck, true));
}

TEST(DataParallel, RefusesParametersThatSomebodyMovedAwayFromIt) {
  World world = World::create();
  const auto net = std::make_shared<torch::nn::LinearImpl>(3, 2);
  std::ostringstream saved;
  torch::save(std::shared_ptr<torch::nn::Module>(net), saved);
  DataParallel parallel(world, net, {.optimizer = {.name = "sgd", .lr = 0.1}});
  const auto step = [&] {
    parallel.backward(net->forward(torch::ones({4, 3})).mean());
    parallel.step();
  };
  step();
  std::istringstream bytes(saved.str());
  std::shared_ptr<torch::nn::Module> same = net;
  torch::load(same, bytes);  // gives each parameter memory of its own
  try {
    step();
    FAIL() << "what is trained is no longer what the module computes with";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("'weight' has other memory"), std::string::npos) << error.message();
  }
}

TEST(Tracked, WithoutAFolderKeepsNothing) {
  const Loop first = run_loop("", 7), second = run_loop("", 7);
  EXPECT_EQ(first.batches.size(), 7U);
  EXPECT_EQ(first.weights, second.weights);
}

TEST(Tracked, GoesOnFromItsFolderToTheSameBits) {
  const ScratchFolder scratch;
  const Loop whole = run_loop("", 13);
  const Loop part = run_loop(scratch.path() / "kept", 8);
  EXPECT_EQ(part.batches.size(), 8U);
  const Loop rest = run_loop(scratch.path() / "kept", 13);
  EXPECT_EQ(rest.weights, whole.weights);
  EXPECT_EQ(rest.batches,
            (std::vector<std::vector<std::size_t>>{whole.batches.begin() + 8, whole.batches.end()}));
}

}  // namespace
}  // namespace distbelief::elastic
