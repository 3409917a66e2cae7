#include "distbelief/modes/servers/sub_network_link.h"

#include <algorithm>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"

namespace distbelief::modes {

SubNetworkLink::SubNetworkLink(Options options) : options_(std::move(options)), own_(own_options()) {}

ServerLink::SubNetwork SubNetworkLink::number(int index) const {
  const run::SubNetworkPlace& place = options_.places[std::size_t(index)];
  return {.index = index, .input_bytes = place.input_bytes, .statistics = place.statistics};
}

ServerLink::Options SubNetworkLink::own_options() {
  ServerLink::Options own = std::move(options_.server);
  own.sub_network = number(options_.index);
  own.first_step = 0;  // all of its work is dealt out again
  own.when_pushed = [this](std::int64_t ticket) { hand_on(ticket); };
  own.goes_on = options_.goes_on;
  return own;
}

// One that knows of the servers what this replica's own client knows, which is used in every step.
server::Client& SubNetworkLink::present(server::Client& client) {
  client.follow(own_.client().map());
  return client;
}

std::unique_ptr<server::Client> SubNetworkLink::connect(const Start& start, int index) {
  const run::SubNetworkPlace& place = options_.places[std::size_t(index)];
  Start other = start;
  other.layout = &place.layout;
  const float* const initial = whole_.empty() ? nullptr : whole_.data() + place.offset;
  return own_.connect(other, number(index), initial);
}

// Others wait until the leader has brought the first values: it may go on from a checkpoint.
std::int64_t SubNetworkLink::join(const Start& start) {
  whole_ = start.whole;
  whole_statistics_ = start.whole_statistics;
  for (int index = 0; index < int(options_.places.size()); ++index)
    if (leads() || index == options_.index + 1) others_[index] = connect(start, index);
  for (const auto& [index, client] : others_)
    if (leads() && place(index).statistics > 0) client->put_statistics(0, statistics_of(index));
  const std::int64_t step = own_.join(start);
  const std::size_t statistics = place(options_.index).statistics;
  if (statistics > 0) own_.client().statistics(start.lane_values.first(statistics));
  return step;
}

// As soon as it has the ticket: nobody can have dropped it unless the ticket is done.
void SubNetworkLink::fetch_input(std::int64_t step, const std::function<void(std::int64_t)>& announce) {
  Known known;
  if (takes_inputs()) {
    std::optional<std::vector<std::byte>> input = own_.client().input(step);
    known.is_done_elsewhere = !input;
    if (input) known.input = *std::move(input);
  }
  if (!known.is_done_elsewhere) announce(step);
  known_.push_back(std::move(known));
}

// A desk that took over may have dealt a step again to who has it: what is known goes by order, not by
// number.
std::optional<std::int64_t> SubNetworkLink::find_step(const std::function<void(std::int64_t)>& announce) {
  for (;;) {
    const std::optional<std::int64_t> step =
        own_.next([&](std::int64_t known) { fetch_input(known, announce); });
    if (!step) return std::nullopt;
    Known known = std::move(known_.front());
    known_.pop_front();
    if (!known.is_done_elsewhere) {
      options_.traffic->input = std::move(known.input);
      return step;
    }
    own_.skip();
  }
}

std::optional<std::int64_t> SubNetworkLink::next(const std::function<void(std::int64_t)>& announce) try {
  if (cut_short_) return std::nullopt;
  const std::optional<std::int64_t> step = find_step(announce);
  if (!step && leads())
    for (const auto& [index, client] : others_) present(*client).await_done();
  return step;
} catch (const Error&) {
  if (options_.goes_on()) throw;
  cut_short_ = true;
  return std::nullopt;
}

// The gradient is in; the ticket is done when the next sub-network has the output too.
void SubNetworkLink::hand_on(std::int64_t ticket) {
  if (!statistics_.empty()) own_.client().put_statistics(ticket + 1, statistics_);
  const auto next = others_.find(options_.index + 1);
  if (next == others_.end()) return;
  present(*next->second).put_input(ticket, model::host_bytes(options_.traffic->output));
}

void SubNetworkLink::exchange(const Share& share, std::span<const float> gradient,
                              std::span<float> parameters) try {
  statistics_ = share.lane_values.first(place(options_.index).statistics);
  own_.exchange(share, gradient, parameters);
} catch (const Error&) {
  if (options_.goes_on()) throw;
  cut_short_ = true;
}

// The output goes out before the ticket is said to be done, and may wait for room.
void SubNetworkLink::acknowledge(std::span<const std::int64_t> versions) try {
  own_.acknowledge(versions);
} catch (const Error&) {
  if (options_.goes_on()) throw;
  cut_short_ = true;
}

// All or nothing: a server that is lost meanwhile leaves no mixture of two moments.
void SubNetworkLink::fetch_whole() {
  std::vector<float> fetched(whole_.begin(), whole_.end());
  std::vector<float> statistics(whole_statistics_.begin(), whole_statistics_.end());
  for (std::size_t i = 0; i < options_.places.size(); ++i) {
    const run::SubNetworkPlace& place = options_.places[i];
    server::Client& client = present(*others_.at(int(i)));
    client.pull(std::span(fetched).subspan(place.offset, place.layout.size()));
    if (place.statistics > 0)
      client.statistics(std::span(statistics).subspan(place.first_statistic, place.statistics));
  }
  std::ranges::copy(fetched, whole_.begin());
  std::ranges::copy(statistics, whole_statistics_.begin());
}

}  // namespace distbelief::modes
