#pragma once

#include <vector>

#include "distbelief/server/client/client.h"
#include "distbelief/tasks/row_source.h"

namespace distbelief::modes {

// Rows of tables on parameter servers. A step is a ticket. Used by the training thread.
class ServedRows final : public tasks::RowLink {
 public:
  // The client outlives it. Until then all rows are zeros, and nothing is pushed. `first_step` is that of the
  // servers' first ticket.
  void connect(server::Client& client, std::vector<comm::TableSpec> tables, std::int64_t first_step);

  void pull(int table, std::span<const std::uint64_t> ids, std::span<float> values) override;
  void push(int table, std::int64_t step, double lr, std::span<const std::uint64_t> ids,
            std::span<const float> gradients) override;
  Counts list(int table, const std::function<void(std::span<const std::byte>)>& each) override;
  void load(int table, std::span<const std::byte> records) override;
  void open(int table) override;

 private:
  server::Client* client_ = nullptr;
  std::vector<comm::TableSpec> tables_;
  std::int64_t first_step_ = 0;
};

}  // namespace distbelief::modes
