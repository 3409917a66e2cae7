#include "distbelief/mesh/host_exchange.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/base/vector.h"
#include "distbelief/comm/algorithms.h"

namespace distbelief::mesh {
namespace {

using comm::Link;
using compute::Span;
using Requests = std::vector<Link::Request>;

enum Tag : int { kSumTag = 101, kTouchedTag, kNormTag };

std::byte* bytes(float* data) { return reinterpret_cast<std::byte*>(data); }

}  // namespace

Span host_chunk(Span bucket, comm::Algorithm algorithm, int hosts, int host) {
  if (algorithm != comm::Algorithm::kCentral) return compute::slice_of(bucket, hosts, host);
  return host == 0 ? bucket : Span{bucket.end, bucket.end};
}

std::vector<ExchangeStop> exchange_stops(int buckets, bool early_update, int norm_rounds) {
  constexpr int kLag = 2;
  using Kind = ExchangeStop::Kind;
  std::vector<ExchangeStop> stops;
  int published = 0;
  for (int b = 0; b < buckets; ++b) {
    stops.push_back({Kind::kSum, b});
    if (early_update && b >= kLag) stops.push_back({Kind::kPublish, published++});
  }
  for (int i = 0; i < norm_rounds; ++i) stops.push_back({Kind::kNorms, i});
  stops.push_back({Kind::kBuffers, 0});
  while (published < buckets) stops.push_back({Kind::kPublish, published++});
  return stops;
}

HostExchange::HostExchange(const Options& options)
    : options_(options),
      host_(options.leaders->rank()),
      hosts_(options.leaders->size()),
      stops_(
          exchange_stops(int(options.layout->buckets().size()), options.early_update, options.norm_rounds)),
      waiter_(*options.abort, options.deadline, std::chrono::nanoseconds(0)) {
  segments_of_host_.resize(std::size_t(hosts_));
  for (int h = 0; h < hosts_; ++h)
    for (int b = 0; b < int(options_.layout->buckets().size()); ++b) {
      const Span span = chunk(b, h);
      for (std::size_t i = options_.layout->first_segment(span.begin / compute::kBlock);
           i < options_.layout->first_segment(span.end / compute::kBlock); ++i)
        segments_of_host_[std::size_t(h)].push_back(i);
    }
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  pthread_setname_np(thread_.native_handle(), "db-exchange");
}

HostExchange::~HostExchange() {
  {
    const std::lock_guard lock(mutex_);
    if (work_ && !failure_) options_.abort->set(options_.first_rank, "left in the middle of a step");
  }
  thread_.request_stop();
  changed_.notify_all();
}

Span HostExchange::chunk(int bucket, int host) const {
  return host_chunk(options_.layout->buckets()[std::size_t(bucket)].span, options_.leaders->algorithm(),
                    hosts_, host);
}

comm::Parts HostExchange::parts(int bucket) const {
  const std::size_t begin = options_.layout->buckets()[std::size_t(bucket)].span.begin;
  comm::Parts parts;
  for (int h = 0; h < hosts_; ++h) {
    const Span span = chunk(bucket, h);
    parts.push_back({span.begin - begin, span.end - begin});
  }
  return parts;
}

void HostExchange::start_step(std::int64_t round, std::int64_t step) {
  start(step, [this, round] { run_step(round); });
}

void HostExchange::start(std::int64_t step, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  step_ = step;
  work_ = std::move(work);
  changed_.notify_all();
}

void HostExchange::finish_step() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || !work_; });
  if (failure_) std::rethrow_exception(failure_);
}

void HostExchange::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!changed_.wait(lock, stop, [&] { return bool(work_); })) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      work_();  // the caller does not touch work_ until it is done
    } catch (const Error& error) {
      // A link knows which host is silent and in which operation, but not the step.
      const Error placed = error.at_step(step_);
      failure = std::make_exception_ptr(placed);
      options_.abort->set(options_.first_rank, placed);
    } catch (const std::exception& error) {
      failure = std::current_exception();
      options_.abort->set(options_.first_rank, Error(ErrorCode::kInternal, error.what()));
    }
    lock.lock();
    work_ = nullptr;
    failure_ = failure;
    changed_.notify_all();
    if (failure_) return;
  }
}

void HostExchange::run_step(std::int64_t round) {
  using Kind = ExchangeStop::Kind;
  round_ = round;
  std::memset(options_.state->host_touched(round), 0, options_.layout->entries().size());
  for (const ExchangeStop& stop : stops_) {
    const auto begin = std::chrono::steady_clock::now();
    const char* what = "sum";
    switch (stop.kind) {
      case Kind::kSum: sum_bucket(stop.bucket, round); break;
      case Kind::kNorms:
        exchange_norms();
        what = "norms";
        break;
      case Kind::kPublish:
        publish(stop.bucket, round);
        what = "publish";
        break;
      case Kind::kBuffers:
        exchange_buffers(round);
        what = "buffers";
        if (!blocks_.empty())
          options_.state->host().published.raise(
              std::uint32_t(std::size_t(round + 1) * options_.layout->buckets().size()));
        break;
      case Kind::kGather:
        gather_block(stop.bucket, course_);
        what = "gather";
        break;
    }
    if (options_.observer)
      options_.observer->span(what, stop.bucket, begin, std::chrono::steady_clock::now());
  }
  if (!blocks_.empty()) end_course(course_);
}

// The thread begins to wait when forward begins, and a step may take any time. The deadline therefore starts
// when the leader's own carrier, which watches the others until then, has reached the same point.
void HostExchange::wait_for_carriers(comm::Signal CarrierSignals::*signal, std::uint32_t wanted,
                                     const char* what) {
  for (int c = 0; c < own().carriers; ++c)
    waiter_.wait(options_.state->carrier(c).*signal, wanted,
                 {.rank = options_.first_rank + c / options_.threads * options_.rank_stride,
                  .operation = what,
                  .step = step_},
                 [&] { return is_leader_done(signal, wanted); });
}

bool HostExchange::is_leader_done(comm::Signal CarrierSignals::*signal, std::uint32_t wanted) const {
  const CarrierSignals& leader = options_.state->carrier(0);
  if (!(leader.*signal).reached(wanted)) return false;
  // A carrier without lanes has used all parameters before the others begin.
  const bool rests = options_.plan->carriers[std::size_t(own().first_carrier)].lanes.empty();
  if (signal == &CarrierSignals::used) return !rests;
  // Others may sum early buckets only after their backward; with a window they do so at once.
  return options_.windowed ||
         leader.reduced.reached(std::uint32_t(std::size_t(round_ + 1) * options_.layout->buckets().size()));
}

void HostExchange::sum_bucket(int bucket, std::int64_t round) {
  const auto buckets = options_.layout->buckets().size();
  const auto count = std::uint32_t(std::size_t(round) * buckets + std::size_t(bucket) + 1);
  wait_for_carriers(&CarrierSignals::reduced, count, "reduce gradients");
  exchange_touched(bucket, round);
  if (options_.leaders->algorithm() == comm::Algorithm::kRing)
    sum_round_the_ring(bucket);
  else
    sum_in_tree_order(bucket);
  options_.state->host().exchanged.raise(count);
}

// Every host sends each other host its nodes of that host's chunk; the receiver adds them in tree order.
void HostExchange::sum_in_tree_order(int bucket) {
  Link& link = options_.leaders->link();
  const Span mine = chunk(bucket, host_);
  const std::size_t begin = options_.layout->buckets()[std::size_t(bucket)].span.begin;
  std::size_t foreign_nodes = 0;
  for (int h = 0; h < hosts_; ++h)
    foreign_nodes += h == host_ ? 0 : options_.plan->hosts[std::size_t(h)].nodes.size();
  received_.resize(std::max(received_.size(), foreign_nodes * mine.size()));
  Requests requests;
  std::vector<const float*> inputs;
  float* place = received_.data();
  for (int h = 0; h < hosts_; ++h) {
    const Span theirs = chunk(bucket, h);
    const auto nodes = options_.plan->hosts[std::size_t(h)].nodes.size();
    for (std::size_t node = 0; node < nodes; ++node) {
      if (h == host_) {
        inputs.push_back(options_.state->sum(int(node), bucket) + (mine.begin - begin));
        continue;
      }
      inputs.push_back(place);
      if (mine.size() > 0)
        requests.push_back(link.start_receive(bytes(place), mine.size() * sizeof(float), h, kSumTag));
      place += mine.size();
    }
    for (std::size_t node = 0; h != host_ && theirs.size() > 0 && node < own().nodes.size(); ++node)
      requests.push_back(
          link.start_send(bytes(options_.state->sum(int(node), bucket) + (theirs.begin - begin)),
                          theirs.size() * sizeof(float), h, kSumTag));
  }
  link.wait(requests, "sum gradients between hosts");
  scratch_.resize(kSumBlock * inputs.size());
  for (std::size_t at = 0; at < mine.size(); at += kSumBlock) {
    const std::size_t count = std::min(kSumBlock, mine.size() - at);
    std::vector<const float*> here(inputs);
    for (const float*& input : here) input += at;
    const float* sum = tree_sum<float>(here, options_.plan->merges_of_hosts, count, scratch_.data());
    std::memcpy(options_.state->world_sum() + mine.begin + at, sum, count * sizeof(float));
  }
}

void HostExchange::sum_round_the_ring(int bucket) {
  const Span span = options_.layout->buckets()[std::size_t(bucket)].span;
  float* sum = options_.state->sum(0, bucket);
  if (own().nodes.empty()) std::memset(sum, 0, span.size() * sizeof(float));  // a host without lanes
  for (std::size_t node = 1; node < own().nodes.size(); ++node)
    add(sum, sum, options_.state->sum(int(node), bucket), span.size());
  comm::ring_reduce_scatter(options_.leaders->link(), comm::view(sum, span.size()), parts(bucket));
  const Span mine = chunk(bucket, host_);
  std::memcpy(options_.state->world_sum() + mine.begin, sum + (mine.begin - span.begin),
              mine.size() * sizeof(float));
}

void HostExchange::exchange_touched(int bucket, std::int64_t round) {
  const auto& parameters = options_.layout->buckets()[std::size_t(bucket)].parameters;
  std::vector<std::uint8_t> mine(parameters.size());
  for (int c = 0; c < own().carriers; ++c)
    for (std::size_t i = 0; i < parameters.size(); ++i)
      mine[i] |= options_.state->touched(c, round)[parameters[i]];
  std::vector<std::uint8_t> theirs(parameters.size() * std::size_t(hosts_));
  Link& link = options_.leaders->link();
  Requests requests;
  for (int h = 0; h < hosts_; ++h) {
    if (h == host_) continue;
    auto* place = reinterpret_cast<std::byte*>(theirs.data() + std::size_t(h) * parameters.size());
    requests.push_back(link.start_receive(place, parameters.size(), h, kTouchedTag));
    requests.push_back(
        link.start_send(reinterpret_cast<std::byte*>(mine.data()), mine.size(), h, kTouchedTag));
  }
  link.wait(requests, "tell which parameters have gradients");
  std::uint8_t* all = options_.state->host_touched(round);
  for (std::size_t i = 0; i < theirs.size(); ++i) all[parameters[i % parameters.size()]] |= theirs[i];
}

void HostExchange::exchange_norms() {
  constexpr int kArrays = 3;
  ++measures_;
  wait_for_carriers(&CarrierSignals::measured, measures_, "measure norms");
  std::vector<std::vector<double>> packed(std::size_t(hosts_), std::vector<double>{});
  Link& link = options_.leaders->link();
  Requests requests;
  const auto bytes_of = [](std::vector<double>& v) { return reinterpret_cast<std::byte*>(v.data()); };
  for (int h = 0; h < hosts_; ++h)
    packed[std::size_t(h)].resize(segments_of_host_[std::size_t(h)].size() * kArrays);
  auto& mine = packed[std::size_t(host_)];
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i] = options_.state->norms(int(i % kArrays))[segments_of_host_[std::size_t(host_)][i / kArrays]];
  for (int h = 0; h < hosts_; ++h) {
    auto& theirs = packed[std::size_t(h)];
    if (h == host_) continue;
    if (!theirs.empty())
      requests.push_back(link.start_receive(bytes_of(theirs), theirs.size() * 8, h, kNormTag));
    if (!mine.empty()) requests.push_back(link.start_send(bytes_of(mine), mine.size() * 8, h, kNormTag));
  }
  link.wait(requests, "exchange norms");
  for (int h = 0; h < hosts_; ++h)
    for (std::size_t i = 0; h != host_ && i < packed[std::size_t(h)].size(); ++i)
      options_.state->norms(int(i % kArrays))[segments_of_host_[std::size_t(h)][i / kArrays]] =
          packed[std::size_t(h)][i];
  options_.state->host().measured.raise(measures_);
}

void HostExchange::publish(int bucket, std::int64_t round) {
  const auto buckets = options_.layout->buckets().size();
  const auto count = std::uint32_t(std::size_t(round) * buckets + std::size_t(bucket) + 1);
  wait_for_carriers(&CarrierSignals::updated, count, "update parameters");
  const Span span = options_.layout->buckets()[std::size_t(bucket)].span;
  const comm::View values = comm::view(options_.state->parameters() + span.begin, span.size());
  if (options_.leaders->algorithm() == comm::Algorithm::kRing)
    comm::ring_allgather(options_.leaders->link(), values, parts(bucket));
  else if (options_.leaders->algorithm() == comm::Algorithm::kDirect)
    comm::direct_allgather(options_.leaders->link(), values, parts(bucket));
  else
    comm::broadcast(options_.leaders->link(), values, 0);
  options_.state->host().published.raise(count);
}

void HostExchange::exchange_buffers(std::int64_t round) {
  if (options_.buffers == 0) return;
  for (int h = 0; h < hosts_; ++h) {
    const Host& host = options_.plan->hosts[std::size_t(h)];
    comm::broadcast(options_.leaders->link(),
                    comm::view(options_.state->lane_buffers(host.first_lane, round),
                               std::size_t(host.end_lane - host.first_lane) * options_.buffers),
                    h);
  }
}

}  // namespace distbelief::mesh
