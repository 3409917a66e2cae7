#include "distbelief/mesh/allreduce_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "distbelief/base/error.h"

namespace distbelief::mesh {
namespace {

std::int64_t lanes_or_default(const AllreduceGroup::Options& options,
                              const std::vector<int>& workers_per_host) {
  if (options.lanes > 0) return options.lanes;
  return options.threads * std::accumulate(workers_per_host.begin(), workers_per_host.end(), std::int64_t{0});
}

LanePlan plan_for(const AllreduceGroup::Options& options, const std::vector<int>& workers_per_host) {
  const Dealing dealing = options.zero > 1 ? Dealing::kRounds : Dealing::kRuns;
  if (options.part)
    return plan_part(options.lanes, *options.part, workers_per_host, options.threads, dealing);
  if (!options.lanes_of_workers.empty())
    return plan_lanes(options.lanes_of_workers, workers_per_host, options.threads, dealing);
  return plan_lanes(lanes_or_default(options, workers_per_host), workers_per_host, options.threads, dealing);
}

SharedState::Shape shape_of(const compute::Layout& layout, const LanePlan& plan,
                            const compute::Optimizer& optimizer, const AllreduceGroup::Options& options,
                            int host) {
  AllreduceSharing::Options sharing;
  sharing.plan = &plan;
  sharing.optimizer = &optimizer;
  sharing.clip_norm = options.clip_norm;
  sharing.overlap = options.overlap;
  sharing.windowed = options.zero > 1;
  return {.layout = &layout,
          .plan = &plan,
          .host = host,
          .states = int(optimizer.state_names().size()),
          .buffers = options.lane_values,
          .keeps_sums = AllreduceSharing::keeps_sums(sharing),
          .states_apart = !options.state_dir.empty() && !optimizer.state_names().empty(),
          .windowed = sharing.windowed};
}

Observer* observer_at(const AllreduceGroup::Options& options, int index) {
  return std::size_t(index) < options.observers.size() ? options.observers[std::size_t(index)] : nullptr;
}

}  // namespace

std::size_t AllreduceGroup::bytes_needed(const std::vector<compute::Layout::Parameter>& parameters,
                                         const Options& options, const std::vector<int>& workers_per_host,
                                         int host) {
  const compute::Layout layout(parameters, options.bucket_bytes);
  const LanePlan plan = plan_for(options, workers_per_host);
  return SharedState::bytes_needed(
      shape_of(layout, plan, *compute::make_optimizer(options.optimizer), options, host));
}

std::size_t AllreduceGroup::state_bytes(const std::vector<compute::Layout::Parameter>& parameters,
                                        const Options& options) {
  const compute::Layout layout(parameters, options.bucket_bytes);
  const std::size_t states = compute::make_optimizer(options.optimizer)->state_names().size();
  return SharedState::state_bytes({.layout = &layout, .plan = nullptr, .states = int(states)});
}

AllreduceGroup::AllreduceGroup(World& world, const std::vector<compute::Layout::Parameter>& parameters,
                               Options options)
    : world_(world),
      options_(std::move(options)),
      layout_(parameters, options_.bucket_bytes),
      plan_(plan_for(options_, world.workers_per_host())),
      optimizer_(compute::make_optimizer(options_.optimizer)) {
  const SharedState::Shape shape = this->shape();
  comm::SharedSegment states;
  if (shape.states_apart)
    states = comm::SharedSegment::map_file_together(world.host_group().transport(),
                                                    SharedState::state_bytes(shape), options_.state_dir);
  std::vector<comm::ByteRange> used;  // empty: all
  if (world.hosts() > 1)
    used = SharedState::bytes_used(
        shape, host_spans(),
        gathers_between_hosts() ? SharedState::Parameters::kOwn : SharedState::Parameters::kWhole);
  state_ =
      std::make_unique<SharedState>(shape,
                                    comm::SharedSegment::map_together(world.host_group().transport(),
                                                                      SharedState::bytes_needed(shape), used),
                                    std::move(states));
  const int members = world.local_size() * options_.threads;
  const int first_rank = world.name(world.rank() - world.local_rank());
  const bool several_hosts = world.hosts() > 1;
  const AllreduceSharing::Options common{.layout = &layout_,
                                         .plan = &plan_,
                                         .state = state_.get(),
                                         .domain = nullptr,
                                         .optimizer = optimizer_.get(),
                                         .exchange = nullptr,
                                         .algorithm = world.options().algorithm,
                                         .host = world.host(),
                                         .clip_norm = options_.clip_norm,
                                         .overlap = options_.overlap,
                                         .buffers = options_.lane_values,
                                         .windowed = options_.zero > 1,
                                         .observer = nullptr,
                                         .lr_factors = options_.lr_factors,
                                         .join_layers = options_.join_layers};
  for (int t = 0; t < options_.threads; ++t) {
    domains_.push_back(std::make_unique<comm::HostDomain>(
        state_->domain(), comm::HostDomain::Options{.member = world.local_rank() * options_.threads + t,
                                                    .members = members,
                                                    .first_rank = first_rank,
                                                    .members_per_rank = options_.threads,
                                                    .rank_stride = world.name_stride(),
                                                    .deadline = world.options().deadline}));
  }
  if (several_hosts) leaders_ = world.borrow_leaders();
  if (leaders_)
    exchange_ = std::make_unique<HostExchange>(HostExchange::Options{
        .layout = &layout_,
        .plan = &plan_,
        .state = state_.get(),
        .abort = &domains_[0]->abort(),
        .leaders = leaders_.get(),
        .first_rank = first_rank,
        .rank_stride = world.name_stride(),
        .threads = options_.threads,
        .buffers = options_.lane_values,
        .early_update = options_.overlap == Overlap::kUpdate &&
                        AllreduceSharing::norm_rounds(*optimizer_, options_.clip_norm) == 0,
        .windowed = options_.zero > 1,
        .norm_rounds = AllreduceSharing::norm_rounds(*optimizer_, options_.clip_norm),
        .deadline = world.options().deadline,
        .observer = observer_at(options_, options_.threads)});
  for (int t = 0; t < options_.threads; ++t) {
    AllreduceSharing::Options sharing = common;
    sharing.domain = domains_[std::size_t(t)].get();
    sharing.exchange = t == 0 ? exchange_.get() : nullptr;
    sharing.observer = observer_at(options_, t);
    sharings_.push_back(std::make_unique<AllreduceSharing>(std::move(sharing)));
  }
  if (shares_out_parameters()) touch_owned();
  if (options_.zero_inside_host) barrier();  // on all hosts, including those with one worker
}

AllreduceGroup::~AllreduceGroup() = default;

// The process that touches a page of shared memory first is charged for it, so each worker touches its own
// pages.
void AllreduceGroup::touch_owned() {
  for (const compute::Span& span : owned_spans()) {
    std::memset(parameters() + span.begin, 0, span.size() * sizeof(float));
    for (int i = 0; i < int(state_names().size()); ++i)
      std::memset(state(i) + span.begin, 0, span.size() * sizeof(float));
  }
}

std::vector<compute::Span> AllreduceGroup::owned_spans() const {
  std::vector<compute::Span> spans;
  for (int t = 0; t < options_.threads; ++t)
    for (const compute::Bucket& bucket : layout_.buckets()) {
      const compute::Span chunk =
          host_chunk(bucket.span, world_.options().algorithm, world_.hosts(), world_.host());
      const SliceShare share = slice_share(plan_, world_.host(), domains_[std::size_t(t)]->member());
      if (share.member != share.members)
        spans.push_back(compute::slice_of(chunk, share.members, share.member));
    }
  return spans;
}

SharedState::Shape AllreduceGroup::shape() const {
  return shape_of(layout_, plan_, *optimizer_, options_, world_.host());
}

const Carrier& AllreduceGroup::carrier(int thread) const {
  return plan_.carriers[std::size_t(world_.rank() * options_.threads + thread)];
}

void AllreduceGroup::gather_blocks(const std::vector<std::vector<compute::Span>>& blocks,
                                   std::vector<Pass> passes) {
  if (!gathers_between_hosts()) return;
  std::size_t rounds = 1;
  for (const Host& host : plan_.hosts) rounds = std::max(rounds, host.rounds.size());
  const std::size_t own = plan_.hosts[std::size_t(world_.host())].rounds.size();
  const bool is_given = !passes.empty();
  if (is_given && own < rounds)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("stages whose parameters hosts share out (parallel.zero = 3) want as many lanes on "
                    "every replica, found {} and {}; make parallel.lanes a multiple of the replicas",
                    own, rounds));
  if (!is_given) passes.assign(rounds, Pass::kThereAndBack);
  // A host with fewer rounds than the others runs its last round together with theirs, because sums are
  // exchanged only then.
  const auto skipped = std::int64_t(is_given ? 0 : rounds - own);
  if (exchange_) exchange_->gather_blocks(blocks, passes);
  for (const auto& sharing : sharings_) sharing->gather_blocks(int(blocks.size()), passes, skipped);
}

void AllreduceGroup::begin_evaluation(std::int64_t passes) {
  const std::vector<Pass> all(std::size_t(passes), Pass::kForward);
  for (const auto& sharing : sharings_) {
    if (!sharing->passes()) continue;
    sharing->passes()->begin(all, -1);
    if (sharing != sharings_.front()) sharing->passes()->end();  // the first thread evaluates
  }
  if (exchange_ && gathers_between_hosts()) exchange_->start_passes(passes);
}

void AllreduceGroup::end_evaluation() {
  for (const auto& sharing : sharings_)
    if (sharing->passes()) sharing->passes()->end();
  if (exchange_ && gathers_between_hosts()) exchange_->finish_step();
}

void AllreduceGroup::gather_parameters() {
  if (exchange_ && gathers_between_hosts()) exchange_->gather(parameters());
}

void AllreduceGroup::read_everywhere(compute::Span span, float* into) {
  if (exchange_ && gathers_between_hosts()) exchange_->gather_span(span);
  if (gathers_between_hosts()) barrier();
  read_parameters(span, into);
  if (!gathers_between_hosts()) return;
  barrier();
  if (exchange_) exchange_->forget_span(span);
}

void AllreduceGroup::forget_gathered() {
  if (!gathers_between_hosts()) return;
  barrier();
  std::size_t from = 0;
  std::vector<compute::Span> own = host_spans();
  own.push_back({layout_.size(), layout_.size()});
  for (const compute::Span& span : own) {
    if (world_.local_rank() == 0 && span.begin > from) {
      SharedState::forget(parameters(), {from, span.begin});
      for (int i = 0; i < int(state_names().size()); ++i) SharedState::forget(state(i), {from, span.begin});
    }
    from = std::max(from, span.end);
  }
  barrier();
}

std::vector<compute::Span> AllreduceGroup::host_spans() const {
  std::vector<compute::Span> spans;
  for (const compute::Bucket& bucket : layout_.buckets())
    spans.push_back(host_chunk(bucket.span, world_.options().algorithm, world_.hosts(), world_.host()));
  return spans;
}

void AllreduceGroup::gather_state() {
  if (world_.hosts() == 1) return;
  gather_parameters();
  for (int i = 0; exchange_ && i < int(state_names().size()); ++i) exchange_->gather(state(i));
}

void AllreduceGroup::share_state() {
  if (world_.hosts() == 1) return;
  gather_state();
  for (int i = 0; world_.leaders() != nullptr && i < int(state_names().size()); ++i)
    world_.leaders()->broadcast(comm::view(state(i), layout_.size()), 0);
  if (gathers_between_hosts() && world_.leaders() != nullptr)
    world_.leaders()->broadcast(comm::view(parameters(), layout_.size()), 0);
  barrier();
}

void AllreduceGroup::spread_state(int from_host) {
  if (world_.hosts() > 1 && world_.leaders() != nullptr) {
    world_.leaders()->broadcast(comm::view(parameters(), layout_.size()), from_host);
    for (int i = 0; i < int(state_names().size()); ++i)
      world_.leaders()->broadcast(comm::view(state(i), layout_.size()), from_host);
  }
  barrier();
  forget_gathered();
}

void AllreduceGroup::set_update_counts(const std::vector<std::int64_t>& counts) {
  for (const auto& sharing : sharings_) sharing->set_update_counts(counts);
}

std::size_t AllreduceGroup::parameters_in(const std::vector<compute::Span>& spans) const {
  std::size_t count = 0;
  for (const compute::Span& span : spans) {
    const std::size_t end = layout_.first_segment(span.end / compute::kBlock);
    for (std::size_t i = layout_.first_segment(span.begin / compute::kBlock); i < end; ++i)
      count += layout_.segments()[i].span.size();
  }
  return count;
}

std::size_t AllreduceGroup::parameters_held() const { return parameters_in(owned_spans()); }

// Counts its gradients or its window, its share of the host's parameters, and its slices of state and sums.
std::size_t AllreduceGroup::bytes_held() const {
  const SharedState::Shape shape = this->shape();
  const std::size_t arrays = state_names().size() + (shape.keeps_sums ? 1 : 0) +
                             std::size_t(shape.windowed ? SharedState::partial_sums(shape) : 0);
  // Unless hosts gather them, each host has all parameters, including those that others update.
  const std::size_t parameters =
      world_.hosts() == 1 || gathers_between_hosts()
          ? parameters_held()
          : parameters_in({{0, layout_.size()}}) / std::size_t(world_.local_size());
  std::size_t largest = 0, gradients = 0;
  for (const compute::Bucket& bucket : layout_.buckets()) largest = std::max(largest, bucket.span.size());
  for (int t = 0; t < options_.threads; ++t) {
    if (!shape.windowed)
      gradients += std::size_t(carrier(t).program.depth) * layout_.size();
    else if (!carrier(t).lanes.empty())
      gradients += SharedState::kWindowSlots * largest;
  }
  return (gradients + parameters + arrays * parameters_held()) * sizeof(float);
}

}  // namespace distbelief::mesh
