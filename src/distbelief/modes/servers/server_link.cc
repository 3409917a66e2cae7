#include "distbelief/modes/servers/server_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/host_name.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/base/vector.h"
#include "distbelief/compute/kernels.h"

namespace distbelief::modes {
namespace {

// A ticket is computed while the next one's data are read.
constexpr std::size_t kTicketsAhead = 2;

}  // namespace

ServerLink::ServerLink(Options options) : options_(std::move(options)) {}

TreeNode ServerLink::lanes() const {
  if (!is_synchronous()) return {0, parallel().lanes};
  const std::int64_t each = parallel().lanes / options_.replicas;
  return {options_.replica * each, (options_.replica + 1) * each};
}

comm::SpaceSpec ServerLink::spec_for(const Start& start, const std::optional<SubNetwork>& sub_network) const {
  const bool is_async = parallel().mode == "hybrid" || sub_network;
  comm::SpaceSpec spec{.job = options_.job,
                       .elements = start.layout->size(),
                       .lane_values = start.lane_values.size(),
                       .optimizer = options_.config.train.optimizer,
                       .mode = is_async ? "async" : parallel().mode,
                       .lanes = is_synchronous() ? parallel().lanes : 1,
                       .spare_lanes = is_synchronous()
                                          ? parallel().spare_replicas * (parallel().lanes / options_.replicas)
                                          : 0,
                       .staleness = parallel().mode == "bounded" ? parallel().staleness : 0,
                       .tickets = is_synchronous() ? 0 : ticket_of(start.steps + parallel().push_every - 1),
                       .compensation = parallel().delay_compensation,
                       .staleness_aware = parallel().staleness_aware,
                       .tables = start.tables,
                       .loads_rows = !start.tables.empty()};
  for (const compute::Entry& entry : start.layout->entries())
    spec.parameters.push_back({.begin = entry.offset, .count = entry.count});
  if (!sub_network) return spec;
  spec.job += fmt::format(".sub{}", sub_network->index);
  spec.sub_network = sub_network->index + 1;
  spec.lane_values = sub_network->statistics;
  spec.input_bytes = sub_network->input_bytes;
  spec.window = spec.input_bytes > 0 ? parallel().window : 0;
  return spec;
}

std::unique_ptr<server::Client> ServerLink::connect(const Start& start,
                                                    const std::optional<SubNetwork>& sub_network,
                                                    const float* initial) const {
  return std::make_unique<server::Client>(server::Client::Options{.servers = options_.servers,
                                                                  .host = host_name(),
                                                                  .spec = spec_for(start, sub_network),
                                                                  .replica = options_.replica,
                                                                  .incarnation = options_.incarnation,
                                                                  .share = options_.share,
                                                                  .shares = options_.shares,
                                                                  .deadline = deadline_of(parallel()),
                                                                  .goes_on = options_.goes_on,
                                                                  .find_servers = options_.find_servers},
                                          initial);
}

std::int64_t ServerLink::join(const Start& start) {
  steps_ = start.steps;
  log_ = server::open_log_of_pushes(options_.log);
  // Of a run that goes on the leader alone has what it goes on from.
  const bool brings_values = options_.share == 0 && (leads() || (!options_.sub_network && first() == 0));
  client_ = connect(start, options_.sub_network, brings_values ? start.parameters.data() : nullptr);
  rows_.connect(*client_, start.tables, first());
  await_warm_start();
  return fetch(own_of(start.parameters));
}

std::int64_t ServerLink::fetch(std::span<float> parameters) {
  const std::int64_t version = client_->pull(parameters);
  const auto begin = std::size_t(client_->first_slice()), end = std::size_t(client_->end_slice());
  if (log_) log_->append_fetched(std::span(client_->versions()).subspan(begin, end - begin));
  return version;
}

// The first replica begins alone, so that the others do not add to each other's large first steps (Dean et
// al., 2012).
void ServerLink::await_warm_start() {
  if (parallel().warm_start == 0 || leads() || options_.share > 0) return;
  const std::int64_t last = std::min(parallel().warm_start, steps_);
  if (last <= first()) return;
  try {
    client_->await_done(ticket_of(last + parallel().push_every - 1));
  } catch (const Error&) {
    if (!is_broken_off()) throw;
  }
}

// A sub-network's link sees to that itself.
bool ServerLink::is_broken_off() {
  cut_short_ = !options_.sub_network && options_.goes_on && !options_.goes_on();
  return cut_short_;
}

std::int64_t ServerLink::agree(std::int64_t version) {
  if (!is_synchronous()) {
    wake();
    return first();
  }
  // Some slices, or what lanes meet for, may be a step further than others: this replica was killed in the
  // middle of it. Unless the others go on without it, none can be two.
  return first() + std::min(version, client_->meeting_step());
}

void ServerLink::begin(std::int64_t step, const Start& start) {
  const std::int64_t version = step - first();
  if (is_synchronous() && version > 0 && parallel().spare_replicas == 0)
    client_->pull(own_of(start.parameters), version);
  if (options_.share > 0) return;
  if (is_synchronous() && client_->meeting_step() > 0)
    client_->meet_again(std::min(version, client_->meeting_step()) - 1, start.lane_values);
  else if (first() > 0 && !start.lane_values.empty())
    share_statistics(start.lane_values);
}

// Those of the checkpoint, which others need not have.
void ServerLink::share_statistics(std::span<float> values) {
  if (leads()) client_->put_statistics(0, values);
  client_->statistics(values);
}

compute::Span ServerLink::own(std::size_t) const {
  const comm::SpaceSpec::Stretch own = client_->own();
  return {own.begin, own.begin + own.count};
}

std::span<float> ServerLink::own_of(std::span<float> whole) const {
  const comm::SpaceSpec::Stretch own = client_->own();
  return whole.subspan(own.begin, own.count);
}

std::size_t ServerLink::slices(std::size_t elements) const {
  return (elements + comm::kSliceElements - 1) / comm::kSliceElements;
}

void ServerLink::read_answers(std::span<std::int64_t> versions) const {
  for (std::int64_t slice = client_->first_slice(); slice < client_->end_slice(); ++slice) {
    const std::int64_t version = client_->answered()[std::size_t(slice)];
    versions[std::size_t(slice)] = client_->was_late(slice) ? -version : version;
  }
}

void ServerLink::log_answers(std::int64_t ticket, std::span<const std::int64_t> versions) {
  if (!log_) return;
  std::vector<std::int64_t> told;
  for (const std::int64_t version : versions) told.push_back(std::abs(version));
  const auto is_late = [](std::int64_t version) { return version < 0; };
  if (std::ranges::any_of(versions, is_late))
    log_->append_late(ticket, told);
  else
    log_->append_acknowledged(ticket, told);
}

// A ticket is done, and told to be, when all slices have it: until then it would be dealt again.
void ServerLink::acknowledge(std::span<const std::int64_t> versions) {
  const std::optional<std::int64_t> ticket = std::exchange(pushed_, {});
  if (!ticket) return;
  log_answers(*ticket, versions);
  if (is_synchronous()) return;
  if (options_.when_pushed) options_.when_pushed(*ticket);
  done_.push_back(*ticket);
  if (!takes_in_order()) ask();
}

void ServerLink::ask() { asked_.push_back(client_->ask_ticket(std::exchange(done_, {}))); }

void ServerLink::note(std::optional<std::int64_t> ticket, const std::function<void(std::int64_t)>& announce) {
  if (!ticket) {
    ended_ = true;
    return;
  }
  const std::int64_t first = this->first() + *ticket * parallel().push_every;
  for (std::int64_t step = first; step < std::min(first + parallel().push_every, steps_); ++step) {
    ahead_.push_back(step);
    announce(step);
  }
}

std::optional<std::int64_t> ServerLink::next(const std::function<void(std::int64_t)>& announce) try {
  return cut_short_ ? std::nullopt : take_step(announce);
} catch (const Error&) {
  if (!is_broken_off()) throw;
  return std::nullopt;
}

// Questions may come to the dealer in any order, and so may its answers: one at a time, and what is done is
// told by itself when one is under way.
void ServerLink::note_answers_in_order(const std::function<void(std::int64_t)>& announce) {
  const auto ask_again = [this] {
    if (!ended_ && asked_.empty() && ahead_.size() < kTicketsAhead) ask();
  };
  for (ask_again(); !ended_; ask_again()) {
    const std::optional<server::Client::Dealt> dealt = client_->ready_ticket(asked_);
    if (!dealt) break;
    note(dealt->ticket, announce);
  }
  if (!done_.empty() && !ended_) client_->tell_done(std::exchange(done_, {}));
  for (; ahead_.empty() && !ended_; ask_again()) note(client_->next_ticket(asked_), announce);
}

std::optional<std::int64_t> ServerLink::take_step(const std::function<void(std::int64_t)>& announce) {
  if (takes_in_order())
    note_answers_in_order(announce);
  else
    while (!asked_.empty() && !ended_ && (ahead_.empty() || asked_.front().ready()))
      note(client_->next_ticket(asked_), announce);
  // The last tickets that are asked for wait until all work is done, so what is done is told before.
  if (ahead_.empty()) return std::nullopt;
  const std::int64_t step = ahead_.front();
  ahead_.pop_front();
  if (parallel().mode == "bounded")
    is_stale_ = client_->begin_step(ticket_of(step), std::exchange(done_, {}));
  return step;
}

// Steps of a ticket that it had begun count for nothing: whoever gets the ticket does all of them.
std::optional<std::int64_t> ServerLink::rest() {
  if (is_synchronous()) return std::nullopt;
  client_->rest(std::exchange(done_, {}), asked_);
  missing_.reset();
  return std::int64_t(std::exchange(ahead_, {}).size());
}

void ServerLink::wake() {
  const std::size_t questions = takes_in_order() ? 1 : kTicketsAhead;
  for (std::size_t i = 0; i < questions && !ended_; ++i) ask();
}

void ServerLink::catch_up(std::span<float> parameters) {
  fetch(parameters);
  since_fetch_ = 0;
  missing_.reset();
}

void ServerLink::push(const server::Client::Push& push, std::span<const float> gradient,
                      std::span<float> parameters) {
  client_->push_pull(push, gradient, parameters);
  pushed_ = push.ticket;
}

void ServerLink::exchange(const Share& share, std::span<const float> gradient, std::span<float> parameters) {
  if (!is_synchronous()) return exchange_alone(share, gradient, parameters);
  const TreeNode lanes = this->lanes();
  push({.ticket = ticket_of(share.step),
        .lr = share.lr,
        .first_lane = lanes.begin,
        .end_lane = lanes.end,
        .samples = share.samples,
        .step_samples = share.step_samples,
        .untouched = share.untouched},
       gradient, parameters);
}

// As in the paper (Downpour): gradients are accrued and pushed every few steps, parameters fetched every few,
// and between two fetches the replica goes on with its own steps.
void ServerLink::exchange_alone(const Share& share, std::span<const float> gradient,
                                std::span<float> parameters) {
  const bool pushes = (share.step + 1) % parallel().push_every == 0 || share.step + 1 == steps_;
  const bool fetches = ++since_fetch_ >= parallel().fetch_every;
  std::span<const float> pushed = gradient;
  if (parallel().push_every > 1) {
    if (!missing_)
      accrued_.assign(gradient.begin(), gradient.end());
    else
      add(accrued_.data(), accrued_.data(), gradient.data(), gradient.size());
    if (!missing_) missing_ = share.untouched;
    std::erase_if(*missing_, [&](std::int32_t parameter) {
      return std::ranges::find(share.untouched, parameter) == share.untouched.end();
    });
    pushed = accrued_;
  }
  if (pushes) {
    const std::vector<std::int32_t> untouched = missing_ ? *std::exchange(missing_, {}) : share.untouched;
    push({.ticket = ticket_of(share.step), .lr = share.lr, .untouched = untouched}, pushed,
         fetches ? parameters : std::span<float>());
  } else if (fetches) {
    fetch(parameters);
  }
  if (fetches) since_fetch_ = 0;
  if (!fetches)
    compute::sgd_plain(parameters.data(), gradient.data(), {.lr = float(share.lr)}, parameters.size());
}

std::int64_t ServerLink::meet(std::int64_t step, std::span<const float> rows,
                              const std::vector<std::int32_t>& empty, std::span<float> mean) {
  const TreeNode lanes = this->lanes();
  return first() + client_->meet(ticket_of(step), lanes.begin, lanes.end, empty, rows, mean);
}

mesh::ParameterLink::Finished ServerLink::finish(std::span<float> parameters) {
  if (!is_synchronous()) client_->pull(parameters);
  return {};
}

}  // namespace distbelief::modes
