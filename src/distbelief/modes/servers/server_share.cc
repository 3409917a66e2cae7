#include "distbelief/modes/servers/server_share.h"

#include <algorithm>
#include <cstdlib>

#include "distbelief/base/host_name.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/compute/optimizer.h"

namespace distbelief::modes {

std::size_t slices_of(std::size_t elements) {
  return (elements + comm::kSliceElements - 1) / comm::kSliceElements;
}

comm::SpaceSpec ServerShare::spec(const compute::Layout& layout, std::size_t lane_values,
                                  const std::vector<comm::TableSpec>& tables) const {
  comm::SpaceSpec spec{.job = options_.job,
                       .elements = layout.size(),
                       .lane_values = lane_values,
                       .optimizer = options_.config.train.optimizer,
                       .mode = "async",
                       .lanes = 1,
                       .compensation = parallel().delay_compensation,
                       .staleness_aware = parallel().staleness_aware,
                       .tables = tables,
                       .loads_rows = !tables.empty()};
  for (const compute::Entry& entry : layout.entries())
    spec.parameters.push_back({.begin = entry.offset, .count = entry.count});
  return spec;
}

std::unique_ptr<server::Client> ServerShare::connect(const comm::SpaceSpec& spec,
                                                     const float* initial) const {
  return std::make_unique<server::Client>(server::Client::Options{.servers = options_.servers,
                                                                  .host = host_name(),
                                                                  .spec = spec,
                                                                  .replica = options_.replica,
                                                                  .incarnation = options_.incarnation,
                                                                  .share = options_.share,
                                                                  .shares = options_.shares,
                                                                  .deadline = deadline_of(parallel()),
                                                                  .goes_on = options_.goes_on,
                                                                  .find_servers = options_.find_servers},
                                          initial);
}

void ServerShare::join(const comm::SpaceSpec& spec, const float* initial) {
  log_ = server::open_log_of_pushes(options_.log);
  client_ = connect(spec, options_.share == 0 ? initial : nullptr);
  rows_.connect(*client_, spec.tables, first_step());
}

compute::Span ServerShare::own() const {
  const comm::SpaceSpec::Stretch own = client_->own();
  return {own.begin, own.begin + own.count};
}

std::int64_t ServerShare::fetch(std::span<float> own_parameters) {
  const std::int64_t version = client_->pull(own_parameters);
  const auto begin = std::size_t(client_->first_slice()), end = std::size_t(client_->end_slice());
  if (log_) log_->append_fetched(std::span(client_->versions()).subspan(begin, end - begin));
  return version;
}

void ServerShare::share_statistics(std::span<float> values) {
  if (values.empty()) return;
  if (leads()) client_->put_statistics(0, values);
  client_->statistics(values);
}

void ServerShare::tell_answers(std::span<std::int64_t> versions) const {
  for (std::int64_t slice = client_->first_slice(); slice < client_->end_slice(); ++slice) {
    const std::int64_t version = client_->answered()[std::size_t(slice)];
    versions[std::size_t(slice)] = client_->was_late(slice) ? -version : version;
  }
}

void ServerShare::log_answers(std::int64_t ticket, std::span<const std::int64_t> versions) {
  if (!log_) return;
  std::vector<std::int64_t> told;
  for (const std::int64_t version : versions) told.push_back(std::abs(version));
  const auto is_late = [](std::int64_t version) { return version < 0; };
  if (std::ranges::any_of(versions, is_late))
    log_->append_late(ticket, told);
  else
    log_->append_acknowledged(ticket, told);
}

std::string ServerShare::lost_state() const {
  const std::vector<std::string> states =
      compute::make_optimizer(options_.config.train.optimizer)->state_names();
  return states.empty() ? "" : "the servers of a resumed run began with empty state of the update rule";
}

}  // namespace distbelief::modes
