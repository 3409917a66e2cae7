#include "distbelief/testing/thread_training.h"

#include <exception>
#include <memory>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"
#include "distbelief/testing/thread_link.h"

namespace distbelief::testing {
namespace {

float noise(std::initializer_list<std::uint64_t> words) {
  return float(SplitMix64(derive_seed(words)).uniform() * 2 - 1);
}

mesh::LanePlan plan_for(const TrainingJob& job, const std::vector<int>& carriers_per_host) {
  const mesh::Dealing dealing = job.zero > 1 ? mesh::Dealing::kRounds : mesh::Dealing::kRuns;
  if (job.lanes_of_carriers.empty()) return mesh::plan_lanes(job.lanes, carriers_per_host, 1, dealing);
  return mesh::plan_lanes(job.lanes_of_carriers, carriers_per_host, 1, dealing);
}

// The state that all hosts share.
struct World {
  const TrainingJob& job;
  compute::Layout layout;
  mesh::LanePlan plan;
  std::unique_ptr<compute::Optimizer> optimizer;
  ThreadHub hub;
  std::vector<std::exception_ptr> failures;  // per carrier

  World(const TrainingJob& given, const std::vector<int>& carriers_per_host)
      : job(given),
        layout(training_parameters(), given.bucket_bytes),
        plan(plan_for(given, carriers_per_host)),
        optimizer(compute::make_optimizer(given.optimizer)),
        failures(plan.carriers.size()) {}
};

mesh::AllreduceSharing::Options sharing_options(World& world, int host) {
  mesh::AllreduceSharing::Options options;
  options.layout = &world.layout;
  options.plan = &world.plan;
  options.optimizer = world.optimizer.get();
  options.algorithm = world.job.algorithm;
  options.host = host;
  options.clip_norm = world.job.clip_norm;
  options.overlap = world.job.overlap;
  options.buffers = world.job.buffers;
  options.windowed = world.job.zero > 1;
  options.lr_factors = world.job.lr_factors;
  return options;
}

// One host: its memory, its exchange with the other hosts, and one thread per carrier.
class TrainingHost {
 public:
  TrainingHost(World& world, int index) : world_(world), index_(index), state_(shape(), segment()) {
    const auto start = first_parameters(world_.layout);
    std::copy(start.begin(), start.end(), state_.parameters());
    for (int c = 0; c < plan().carriers; ++c) {
      const comm::HostDomain::Options domain{.member = c,
                                             .members = plan().carriers,
                                             .first_rank = plan().first_carrier,
                                             .members_per_rank = 1,
                                             .deadline = world_.job.deadline};
      domains_.push_back(std::make_unique<comm::HostDomain>(state_.domain(), domain));
    }
    if (world_.plan.hosts.size() > 1) make_exchange();
    for (int c = 0; c < plan().carriers; ++c) {
      mesh::AllreduceSharing::Options options = sharing_options(world_, index_);
      options.state = &state_;
      options.domain = domains_[std::size_t(c)].get();
      options.exchange = c == 0 ? exchange_.get() : nullptr;
      sharings_.push_back(std::make_unique<mesh::AllreduceSharing>(std::move(options)));
    }
    if (gathers()) share_out_parameters();
  }

  void start() {
    for (int c = 0; c < plan().carriers; ++c) threads_.emplace_back([this, c] { run(c); });
  }
  void join() { threads_.clear(); }

  TrainingOutcome outcome(int carrier) const {
    const mesh::AllreduceSharing& sharing = *sharings_[std::size_t(carrier)];
    TrainingOutcome found;
    const std::size_t size = world_.layout.size();
    found.parameters.assign(state_.parameters(), state_.parameters() + size);
    for (std::size_t i = 0; i < world_.optimizer->state_names().size(); ++i)
      found.states.emplace_back(state_.state(int(i)), state_.state(int(i)) + size);
    found.update_counts = sharing.update_counts();
    found.mean_buffers.assign(sharing.mean_buffers().begin(), sharing.mean_buffers().end());
    found.gradient_norm = sharing.gradient_norm();
    return found;
  }
  int carriers() const { return plan().carriers; }

 private:
  bool gathers() const { return world_.job.zero == 3 && world_.plan.hosts.size() > 1; }

  // Makes every parameter a block, of which each host keeps only its chunks.
  void share_out_parameters() {
    std::vector<std::vector<compute::Span>> blocks;
    for (const compute::Entry& entry : world_.layout.entries()) {
      const std::size_t size = (entry.count + compute::kBlock - 1) / compute::kBlock * compute::kBlock;
      blocks.push_back({{entry.offset, entry.offset + size}});
    }
    std::size_t rounds = 1, from = 0;
    for (const mesh::Host& host : world_.plan.hosts) rounds = std::max(rounds, host.rounds.size());
    const std::vector<mesh::Pass> passes(rounds, mesh::Pass::kThereAndBack);
    exchange_->gather_blocks(blocks, passes);
    for (const auto& sharing : sharings_)
      sharing->gather_blocks(int(blocks.size()), passes, std::int64_t(rounds - plan().rounds.size()));
    for (const compute::Bucket& bucket : world_.layout.buckets()) {
      const compute::Span own =
          mesh::host_chunk(bucket.span, world_.job.algorithm, int(world_.plan.hosts.size()), index_);
      mesh::SharedState::forget(state_.parameters(), {from, own.begin});
      from = own.end;
    }
    mesh::SharedState::forget(state_.parameters(), {from, world_.layout.size()});
  }

  const mesh::Host& plan() const { return world_.plan.hosts[std::size_t(index_)]; }

  mesh::SharedState::Shape shape() const {
    return {.layout = &world_.layout,
            .plan = &world_.plan,
            .host = index_,
            .states = int(world_.optimizer->state_names().size()),
            .buffers = world_.job.buffers,
            .keeps_sums = mesh::AllreduceSharing::keeps_sums(sharing_options(world_, index_)),
            .windowed = world_.job.zero > 1};
  }
  comm::SharedSegment segment() const {
    return comm::SharedSegment::map_private(mesh::SharedState::bytes_needed(shape()));
  }

  int largest_host() const {
    int largest = 0;
    for (const mesh::Host& host : world_.plan.hosts) largest = std::max(largest, host.carriers);
    return largest;
  }

  void make_exchange() {
    const int hosts = int(world_.plan.hosts.size());
    leaders_ = std::make_unique<comm::LinkCommunicator>(
        std::make_unique<ThreadLink>(world_.hub, index_, hosts,
                                     comm::host_deadline(world_.job.deadline, largest_host())),
        world_.job.algorithm);
    const int norm_rounds = mesh::AllreduceSharing::norm_rounds(*world_.optimizer, world_.job.clip_norm);
    exchange_ = std::make_unique<mesh::HostExchange>(mesh::HostExchange::Options{
        .layout = &world_.layout,
        .plan = &world_.plan,
        .state = &state_,
        .abort = &domains_[0]->abort(),
        .leaders = leaders_.get(),
        .first_rank = plan().first_carrier,
        .threads = 1,
        .buffers = world_.job.buffers,
        .early_update = world_.job.overlap == mesh::Overlap::kUpdate && norm_rounds == 0,
        .windowed = world_.job.zero > 1,
        .norm_rounds = norm_rounds,
        .deadline = world_.job.deadline,
        .observer = nullptr});
  }

  void run(int carrier) {
    try {
      for (std::int64_t step = 0; step < world_.job.steps; ++step) take_step(carrier, step);
      for (std::size_t i = 0; carrier == 0 && exchange_ && i < world_.optimizer->state_names().size(); ++i)
        exchange_->gather(state_.state(int(i)));
      if (carrier == 0 && gathers()) exchange_->gather(state_.parameters());
    } catch (const std::exception& error) {
      domains_[std::size_t(carrier)]->abort().set(plan().first_carrier + carrier, error.what());
      world_.failures[std::size_t(plan().first_carrier + carrier)] = std::current_exception();
    }
  }

  void take_step(int carrier, std::int64_t step) {
    mesh::AllreduceSharing& sharing = *sharings_[std::size_t(carrier)];
    std::vector<std::int64_t> samples;
    for (std::int64_t lane = 0; lane < world_.job.lanes; ++lane)
      samples.push_back(world_.job.occupied(step, lane));
    sharing.begin_step({.step = step, .lr = kTrainingRate, .lane_samples = samples});
    const mesh::Carrier& lanes = world_.plan.carriers[std::size_t(plan().first_carrier + carrier)];
    for (const std::int64_t lane : lanes.lanes) {
      sharing.begin_lane(lane);
      if (sharing.passes()) sharing.passes()->begin_pass();
      if (samples[std::size_t(lane)] > 0) run_lane(sharing, step, lane);
      if (sharing.passes()) sharing.passes()->end_pass();
      sharing.end_lane();
    }
    sharing.end_step();
  }

  void run_lane(mesh::AllreduceSharing& sharing, std::int64_t step, std::int64_t lane) {
    for (std::size_t i = 0; i < world_.job.buffers; ++i)
      sharing.lane_buffers()[i] = noise({std::uint64_t(step), std::uint64_t(lane), 1000 + i});
    const int blocks = int(world_.layout.entries().size());
    mesh::BlockPasses* passes = sharing.passes();
    for (int p = 0; passes && p < blocks; ++p) {
      passes->hold(p);
      if (p + 1 < blocks) passes->used(p);
    }
    for (int p = blocks; p-- > 0;) {
      if (passes) passes->hold(mesh::backward_place(mesh::Pass::kThereAndBack, p, blocks));
      if (world_.job.gives(step, lane, p))
        sharing.gradient(p, lane_gradient(world_.layout, state_.parameters(), step, lane, p).data());
      if (passes) passes->used(mesh::backward_place(mesh::Pass::kThereAndBack, p, blocks));
    }
  }

  World& world_;
  int index_;
  mesh::SharedState state_;
  std::vector<std::unique_ptr<comm::HostDomain>> domains_;
  std::unique_ptr<comm::LinkCommunicator> leaders_;
  std::unique_ptr<mesh::HostExchange> exchange_;
  std::vector<std::unique_ptr<mesh::AllreduceSharing>> sharings_;
  std::vector<std::jthread> threads_;
};

}  // namespace

std::string to_string(mesh::Overlap overlap) {
  switch (overlap) {
    case mesh::Overlap::kUpdate: return "update";
    case mesh::Overlap::kReduce: return "reduce";
    case mesh::Overlap::kOff: return "off";
    case mesh::Overlap::kCheck: return "check";
  }
  return "unknown";
}

const std::vector<compute::Layout::Parameter>& training_parameters() {
  static const std::vector<compute::Layout::Parameter> parameters{
      {"embedding", {61, 83}}, {"first.weight", {37, 50}}, {"first.bias", {37}},
      {"scale", {1}},          {"last.weight", {900, 2}},  {"last.bias", {10}}};
  return parameters;
}

std::vector<float> first_parameters(const compute::Layout& layout) {
  std::vector<float> arena(layout.size());
  for (const compute::Entry& entry : layout.entries())
    for (std::size_t i = 0; i < entry.count; ++i) arena[entry.offset + i] = noise({77, entry.count, i});
  return arena;
}

std::vector<float> lane_gradient(const compute::Layout& layout, const float* arena, std::int64_t step,
                                 std::int64_t lane, int parameter) {
  const compute::Entry& entry = layout.entries()[std::size_t(parameter)];
  std::vector<float> gradient(entry.count);
  for (std::size_t i = 0; i < entry.count; ++i)
    gradient[i] = noise({std::uint64_t(step), std::uint64_t(lane), std::uint64_t(parameter), i}) +
                  0.1F * arena[entry.offset + i];
  return gradient;
}

TrainingOutcome train_on_threads(const TrainingJob& job, const std::vector<int>& carriers_per_host) {
  World world(job, carriers_per_host);
  std::vector<std::unique_ptr<TrainingHost>> hosts;
  for (std::size_t h = 0; h < carriers_per_host.size(); ++h)
    hosts.push_back(std::make_unique<TrainingHost>(world, int(h)));
  for (const auto& host : hosts) host->start();
  for (const auto& host : hosts) host->join();
  for (const std::exception_ptr& failure : world.failures)
    if (failure) std::rethrow_exception(failure);
  const TrainingOutcome first = hosts[0]->outcome(0);
  for (const auto& host : hosts)
    for (int c = 0; c < host->carriers(); ++c) {
      TrainingOutcome other = host->outcome(c);
      other.states = first.states;  // a host keeps only its part of the state
      if (job.zero == 3) other.parameters = first.parameters;
      if (!(other == first))
        throw Error(ErrorCode::kInternal, "carriers ended a run with different outcomes");
    }
  return first;
}

}  // namespace distbelief::testing
