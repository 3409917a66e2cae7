#include "distbelief/modes/servers/sub_networks.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/compute/replica.h"
#include "distbelief/model/device.h"

namespace distbelief::modes {

ModeParts SubNetworks::parts(const run::PreparedJob& job, ServerShareOptions options) {
  const int index = options.replica % int(job.sub_networks.size());
  options.first_step = 0;  // all of its work is dealt out again
  const auto share = std::make_shared<ServerShare>(std::move(options));
  const auto traffic = std::make_shared<SubNetworkTraffic>();
  const SubNetworkSite site{.traffic = traffic.get(),
                            .input = index > 0 ? job.sub_networks[std::size_t(index)].input : Shape{}};
  return {.terms = {.update = replica::ReplicaTerms::Update::kCollectGradient,
                    .feed = replica::LaneFeedOptions::Order::kAnnounced,
                    .sub_network = index,
                    .around_task =
                        [site, traffic](std::unique_ptr<tasks::Task> task) {
                          return make_sub_network_task(std::move(task), site);
                        },
                    .rows = &share->rows()},
          .make = [share, traffic](replica::Replica& replica) {
            return std::make_unique<SubNetworks>(replica, share, traffic);
          }};
}

SubNetworks::SubNetworks(replica::Replica& replica, std::shared_ptr<ServerShare> share,
                         std::shared_ptr<SubNetworkTraffic> traffic)
    : Mode({.stages = replica.stages(), .outline = &replica.partition().outline(), .writes = share->leads()}),
      replica_(replica),
      share_(std::move(share)),
      traffic_(std::move(traffic)),
      places_(run::places_of_sub_networks(replica.job())) {
  const model::BlockRange blocks = replica_.stages()[0].outline->blocks;
  spdlog::info("sub-network {} of {}: blocks {} to {}, {} parameters", index(), places_.size(), blocks.begin,
               blocks.end - 1, replica_.group().layout().parameter_count());
  if (leads()) hold_whole();
}

SubNetworks::~SubNetworks() = default;

// A second copy of the parameters, which servers fill when it is to be validated or saved.
void SubNetworks::hold_whole() {
  whole_outline_ = mesh::outline_of(*replica_.job().network);
  whole_.push_back(mesh::make_stage(0, whole_outline_.stages[0], replica_.job().network, nullptr));
  mesh::Stage& whole = whole_[0];
  whole.group = std::make_unique<mesh::AllreduceGroup>(whole_world_.emplace(replica_.world().split(0)),
                                                       whole.parameters, replica_.group_settings(whole));
  compute::copy_parameters(*whole.network, whole.group->layout(), whole.group->parameters());
  compute::Replica(whole.network, whole.group->layout(), whole.group->parameters());  // they lie there now
  whole_statistics_.resize(whole_outline_.buffers);
  set_record({.stages = whole_, .outline = &whole_outline_, .is_apart = true, .writes = true});
}

// A checkpoint has the whole model, with the last parameter of the first sub-network first in its arena.
void SubNetworks::take_own_part() {
  const std::size_t last = replica_.stages()[0].parameters.size() - 1;
  std::memcpy(replica_.group().parameters(),
              whole_[0].group->parameters() + whole_[0].group->layout().entries()[last].offset,
              replica_.group().layout().size() * sizeof(float));
}

comm::SpaceSpec SubNetworks::spec(int index) const {
  const run::SubNetworkPlace& its = place(index);
  comm::SpaceSpec spec = share_->spec(its.layout, its.statistics, {});
  spec.job += fmt::format(".sub{}", index);
  spec.tickets = steps_;
  spec.sub_network = index + 1;
  spec.input_bytes = its.input_bytes;
  spec.window = its.input_bytes > 0 ? share_->parallel().window : 0;
  return spec;
}

std::span<float> SubNetworks::statistics_of(int index) {
  return std::span(whole_statistics_).subspan(place(index).first_statistic, place(index).statistics);
}

void SubNetworks::connect_others() {
  if (leads()) compute::BufferSet(*whole_[0].network).read(whole_statistics_);
  for (int other = 0; other < int(places_.size()); ++other) {
    if (!leads() && other != index() + 1) continue;
    const float* const initial = leads() ? whole_[0].group->parameters() + place(other).offset : nullptr;
    others_[other] = share_->connect(spec(other), initial);
  }
  for (const auto& [other, client] : others_)
    if (leads() && place(other).statistics > 0) client->put_statistics(0, statistics_of(other));
}

// Others wait until the leader has brought the first values: it may go on from a checkpoint.
Reached SubNetworks::join(const Entry& entry) {
  steps_ = entry.steps;
  if (entry.checkpoint && leads()) take_own_part();
  view_.emplace(replica_, replica::ReplicaViewOptions{.slices = slices_of(place(index()).layout.size())});
  view_->put();
  connect_others();
  share_->join(spec(index()), leads() ? view_->parameters().data() : nullptr);
  share_->fetch(share_->own_of(view_->parameters()));
  const std::size_t statistics = place(index()).statistics;
  if (statistics > 0) share_->client().statistics(view_->mean().first(statistics));
  tickets_.emplace(TicketQueueOptions{
      .client = &share_->client(), .steps = steps_, .order = TicketQueueOptions::Order::kOneByOne});
  tickets_->begin();
  view_->take();
  view_->take_statistics();
  return {.step = entry.step,
          .begins_anew = entry.step > 0,
          .bits_lost = entry.step > 0 ? "the work of a resumed decomposed run was dealt out again" : ""};
}

// Tells a client that is seldom used what this replica's own client, used in every step, knows of the
// servers.
server::Client& SubNetworks::present(server::Client& client) {
  client.follow(share_->client().map());
  return client;
}

// As soon as it has the ticket: nobody can have dropped it unless the ticket is done.
void SubNetworks::fetch_input(std::int64_t step) {
  Known known;
  if (place(index()).input_bytes > 0) {
    std::optional<std::vector<std::byte>> input = share_->client().input(step);
    known.is_done_elsewhere = !input;
    if (input) known.input = *std::move(input);
  }
  if (!known.is_done_elsewhere) replica_.feed().announce(step);
  known_.push_back(std::move(known));
}

// A scheduler that took over may have dealt a step again to the replica that has it: what is known goes by
// order, not by number.
std::optional<std::int64_t> SubNetworks::find_step() {
  for (;;) {
    const std::optional<std::int64_t> step =
        tickets_->take([this](std::int64_t known) { fetch_input(known); });
    if (!step) return std::nullopt;
    Known known = std::move(known_.front());
    known_.pop_front();
    if (!known.is_done_elsewhere) {
      traffic_->input = std::move(known.input);
      return step;
    }
    tickets_->skip();
  }
}

Work SubNetworks::next() try {
  if (is_broken_off_) return {.kind = Work::Kind::kBrokenOff};
  const std::optional<std::int64_t> step = find_step();
  if (step) return {.at = {.step = *step, .closes_epochs = leads()}, .continues = continues_};
  if (leads())
    for (const auto& [other, client] : others_) present(*client).await_done();
  return {.kind = Work::Kind::kDone};
} catch (const Error&) {
  if (!share_->is_broken_off()) throw;
  is_broken_off_ = true;
  return {.kind = Work::Kind::kBrokenOff};
}

// The output goes out before the ticket is said to be done, and may wait for room.
void SubNetworks::hand_on(std::int64_t ticket) {
  if (place(index()).statistics > 0)
    share_->client().put_statistics(
        ticket + 1, replica_.group().sharing(0).mean_buffers().first(place(index()).statistics));
  const auto next = others_.find(index() + 1);
  if (next != others_.end()) present(*next->second).put_input(ticket, model::host_bytes(traffic_->output));
}

void SubNetworks::push(const mesh::StepPlan& plan) try {
  const compute::Span own = share_->own();
  const std::int64_t ticket = share_->ticket_of(plan.step);
  share_->client().push_pull({.ticket = ticket, .lr = plan.lr, .untouched = view_->forget_untouched(own)},
                             view_->gradient().subspan(own.begin, own.size()),
                             share_->own_of(view_->parameters()));
  share_->tell_answers(view_->answers());
  share_->log_answers(ticket, view_->answers());
  hand_on(ticket);
  tickets_->finish(ticket);
} catch (const Error&) {
  if (!share_->is_broken_off()) throw;
  is_broken_off_ = true;
}

Settled SubNetworks::settle(const mesh::StepPlan& plan, const mesh::StepOutcome& own) {
  report::PhaseClock& clock = replica_.team().clock();
  clock.start(report::Phase::kExchange);
  view_->collect();
  push(plan);
  view_->take();
  clock.start(report::Phase::kOther);
  continues_ = mesh::size_of(plan).samples == replica_.job().config.train.batch_size;
  return {.reached = {.step = plan.step + 1}, .loss = own.loss, .agreed = own};
}

// All or nothing: a server that is lost meanwhile leaves no mixture of two moments.
void SubNetworks::refresh() {
  if (!leads()) return;
  const std::span<float> whole(whole_[0].group->parameters(), whole_[0].group->layout().size());
  std::vector<float> fetched(whole.begin(), whole.end());
  std::vector<float> statistics = whole_statistics_;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    server::Client& client = present(*others_.at(int(i)));
    client.pull(std::span(fetched).subspan(places_[i].offset, places_[i].layout.size()));
    if (places_[i].statistics > 0)
      client.statistics(std::span(statistics).subspan(places_[i].first_statistic, places_[i].statistics));
  }
  std::ranges::copy(fetched, whole.begin());
  whole_statistics_ = std::move(statistics);
  compute::BufferSet(*whole_[0].network).write(whole_statistics_);
}

Finished SubNetworks::finish() {
  share_->client().pull(share_->own_of(view_->parameters()));
  view_->take();
  return {.reached = Reached{.step = steps_, .closes_epochs = leads(), .of_all = true, .ends = true}};
}

}  // namespace distbelief::modes
