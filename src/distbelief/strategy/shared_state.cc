#include "distbelief/strategy/shared_state.h"

#include <algorithm>

namespace distbelief::strategy {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kNormArrays = 3;

std::size_t round_up(std::size_t value) { return (value + kPage - 1) / kPage * kPage; }

}  // namespace

struct SharedState::Places {
  std::size_t end = 0;
  std::size_t domain, signals, host_signals, touched, norms, buffers, parameters, states, sums, world_sum;
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
  p.states = p.take(std::size_t(shape.states) * array);
  p.sums = p.take(shape.keeps_sums ? std::max<std::size_t>(1, host.nodes.size()) * array : 0);
  p.world_sum = p.take(several_hosts ? array : 0);
  for (int c = 0; c < host.carriers; ++c)
    p.gradients.push_back(
        p.take(std::size_t(shape.plan->carriers[std::size_t(host.first_carrier + c)].program.depth) * array));
  return p;
}

std::size_t SharedState::bytes_needed(const Shape& shape) { return places(shape).end; }

SharedState::SharedState(const Shape& shape, comm::SharedSegment segment)
    : shape_(shape),
      segment_(std::move(segment)),
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
  gradients_ = std::move(p.gradients);
}

CarrierSignals& SharedState::carrier(int local) const {
  return reinterpret_cast<CarrierSignals*>(segment_.data() + signals_)[local];
}

HostSignals& SharedState::host() const {
  return *reinterpret_cast<HostSignals*>(segment_.data() + host_signals_);
}

float* SharedState::gradients(int local_carrier, int slot) const {
  return floats(gradients_[std::size_t(local_carrier)]) + std::size_t(slot) * padded_;
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

}  // namespace distbelief::strategy
