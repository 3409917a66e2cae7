#include "distbelief/mesh/shared_state.h"

#include <sys/mman.h>

#include <algorithm>

namespace distbelief::mesh {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kNormArrays = 3;

std::size_t round_up(std::size_t value) { return (value + kPage - 1) / kPage * kPage; }

std::size_t largest_bucket(const compute::Layout& layout) {
  std::size_t largest = 0;
  for (const compute::Bucket& bucket : layout.buckets()) largest = std::max(largest, bucket.span.size());
  return largest;
}

bool passes_sums_on(const SharedState::Shape& shape) {
  return shape.windowed && shape.plan->hosts.size() > 1;
}

}  // namespace

struct SharedState::Places {
  std::size_t end = 0;
  std::size_t domain, signals, host_signals, touched, norms, buffers, parameters, states, sums, world_sum;
  std::size_t partials;
  std::vector<std::size_t> gradients;

  std::size_t take(std::size_t bytes) {
    const std::size_t place = end;
    end += round_up(bytes);
    return place;
  }
};

SharedState::Places SharedState::places(const Shape& shape) {
  const Host& host = shape.plan->hosts[std::size_t(shape.host)];
  const auto carriers = std::size_t(host.carriers);
  const bool several_hosts = shape.plan->hosts.size() > 1;
  const std::size_t array = round_up(shape.layout->size() * sizeof(float));
  Places p;
  p.domain = p.take(comm::HostDomain::bytes_needed(host.carriers));
  p.signals = p.take(carriers * sizeof(CarrierSignals));
  p.host_signals = p.take(sizeof(HostSignals));
  p.touched = p.take(2 * (carriers + 1) * shape.layout->entries().size());
  p.norms = p.take(kNormArrays * shape.layout->segments().size() * sizeof(double));
  p.buffers = p.take(2 * std::size_t(shape.plan->lanes) * shape.buffers * sizeof(float));
  p.parameters = p.take(array);
  p.states = p.take(shape.states_apart ? 0 : std::size_t(shape.states) * array);
  const std::size_t bucket = round_up(largest_bucket(*shape.layout) * sizeof(float));
  p.sums = p.take(shape.keeps_sums ? std::max<std::size_t>(1, host.nodes.size()) *
                                         (passes_sums_on(shape) ? kSumSlots * bucket : array)
                                   : 0);
  p.world_sum = p.take(several_hosts ? array : 0);
  p.partials = p.take(std::size_t(partial_sums(shape)) * array);
  for (int c = 0; c < host.carriers; ++c) {
    const Carrier& carrier = shape.plan->carriers[std::size_t(host.first_carrier + c)];
    const bool passes = shape.windowed && !carrier.lanes.empty();
    p.gradients.push_back(
        p.take(passes ? kWindowSlots * bucket : std::size_t(carrier.program.depth) * array));
  }
  return p;
}

std::size_t SharedState::bytes_needed(const Shape& shape) { return places(shape).end; }

std::vector<comm::ByteRange> SharedState::bytes_used(const Shape& shape,
                                                     const std::vector<compute::Span>& own,
                                                     Parameters parameters) {
  const Places p = places(shape);
  const std::size_t array = round_up(shape.layout->size() * sizeof(float));
  std::vector<std::size_t> shared_out;  // offsets of the arrays that hosts share out, ascending
  if (parameters == Parameters::kOwn) shared_out.push_back(p.parameters);
  for (std::size_t at = p.states; at < p.sums; at += array) shared_out.push_back(at);
  if (p.world_sum < p.partials) shared_out.push_back(p.world_sum);
  std::vector<comm::ByteRange> used;
  std::size_t from = 0;
  for (const std::size_t begin : shared_out) {
    used.push_back({from, begin});
    for (const compute::Span& span : own)
      used.push_back({begin + span.begin * sizeof(float), begin + span.end * sizeof(float)});
    from = begin + array;
  }
  used.push_back({from, p.end});
  return used;
}

int SharedState::partial_sums(const Shape& shape) {
  int most = 0;
  const std::vector<Round>& rounds = shape.plan->hosts[std::size_t(shape.host)].rounds;
  for (std::size_t r = 0; r + 1 < rounds.size(); ++r) most = std::max(most, rounds[r].after);
  return most;
}

std::size_t SharedState::state_bytes(const Shape& shape) {
  return std::size_t(shape.states) * round_up(shape.layout->size() * sizeof(float));
}

SharedState::SharedState(const Shape& shape, comm::SharedSegment segment, comm::SharedSegment states)
    : shape_(shape),
      segment_(std::move(segment)),
      states_apart_(std::move(states)),
      padded_(round_up(shape.layout->size() * sizeof(float)) / sizeof(float)) {
  Places p = places(shape);
  domain_ = p.domain;
  signals_ = p.signals;
  host_signals_ = p.host_signals;
  touched_ = p.touched;
  norms_ = p.norms;
  buffers_ = p.buffers;
  parameters_ = p.parameters;
  states_ = p.states;
  sums_ = p.sums;
  world_sum_ = p.world_sum;
  partials_ = p.partials;
  largest_bucket_ = round_up(largest_bucket(*shape.layout) * sizeof(float)) / sizeof(float);
  gradients_ = std::move(p.gradients);
}

float* SharedState::state(int index) const {
  float* first = shape_.states_apart ? reinterpret_cast<float*>(states_apart_.data()) : floats(states_);
  return first + std::size_t(index) * padded_;
}

void SharedState::forget(float* array, compute::Span span) {
  if (span.size() > 0) madvise(array + span.begin, span.size() * sizeof(float), MADV_REMOVE);
}

CarrierSignals& SharedState::carrier(int local) const {
  return reinterpret_cast<CarrierSignals*>(segment_.data() + signals_)[local];
}

HostSignals& SharedState::host() const {
  return *reinterpret_cast<HostSignals*>(segment_.data() + host_signals_);
}

void SharedState::read_parameters(compute::Span span, float* into) const {
  segment_.read(parameters_ + span.begin * sizeof(float), reinterpret_cast<std::byte*>(into),
                span.size() * sizeof(float));
}

float* SharedState::gradients(int local_carrier, int slot) const {
  return floats(gradients_[std::size_t(local_carrier)]) + std::size_t(slot) * padded_;
}

float* SharedState::window(int local_carrier, std::int64_t item) const {
  return floats(gradients_[std::size_t(local_carrier)]) + std::size_t(item % kWindowSlots) * largest_bucket_;
}

float* SharedState::sum(int node, int bucket) const {
  if (passes_sums_on(shape_))
    return floats(sums_) + std::size_t(node * kSumSlots + bucket % kSumSlots) * largest_bucket_;
  return floats(sums_) + std::size_t(node) * padded_ +
         shape_.layout->buckets()[std::size_t(bucket)].span.begin;
}

double* SharedState::norms(int which) const {
  return reinterpret_cast<double*>(segment_.data() + norms_) +
         std::size_t(which) * shape_.layout->segments().size();
}

std::uint8_t* SharedState::touched(int local_carrier, std::int64_t step) const {
  const std::size_t parameters = shape_.layout->entries().size();
  const auto sets = std::size_t(shape_.plan->hosts[std::size_t(shape_.host)].carriers + 1);
  const std::size_t set = std::size_t(step % 2) * sets + std::size_t(local_carrier);
  return reinterpret_cast<std::uint8_t*>(segment_.data() + touched_) + set * parameters;
}

std::uint8_t* SharedState::host_touched(std::int64_t step) const {
  return touched(shape_.plan->hosts[std::size_t(shape_.host)].carriers, step);
}

float* SharedState::lane_buffers(std::int64_t lane, std::int64_t step) const {
  return floats(buffers_) + std::size_t((step % 2) * shape_.plan->lanes + lane) * shape_.buffers;
}

}  // namespace distbelief::mesh
