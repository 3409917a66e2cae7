#include "distbelief/modes/servers/served_rows.h"

#include <algorithm>

namespace distbelief::modes {

void ServedRows::connect(server::Client& client, std::vector<comm::TableSpec> tables,
                         std::int64_t first_step) {
  client_ = &client;
  tables_ = std::move(tables);
  first_step_ = first_step;
}

void ServedRows::pull(int table, std::span<const std::uint64_t> ids, std::span<float> values) {
  if (client_ != nullptr) return client_->pull_rows(table, ids, values);
  std::ranges::fill(values, 0.0F);  // a step before the first (warm-up)
}

void ServedRows::push(int table, std::int64_t step, double lr, std::span<const std::uint64_t> ids,
                      std::span<const float> gradients) {
  client_->push_rows(table, step - first_step_, lr, ids, gradients);
}

tasks::RowLink::Counts ServedRows::list(int table,
                                        const std::function<void(std::span<const std::byte>)>& each) {
  const server::Client::TableCounts counts = client_->list_rows(table, each);
  return {.rows = counts.rows, .gone = counts.gone, .is_open = counts.is_open};
}

void ServedRows::load(int table, std::span<const std::byte> records) { client_->load_rows(table, records); }

void ServedRows::open(int table) { client_->open_rows(table); }

}  // namespace distbelief::modes
