#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "distbelief/comm/rpc/store.h"

// Rows of a task's tables, wherever they are kept. A table is known by its number in Task::tables(). No
// tensors. All of it blocks and throws Error.
namespace distbelief::tasks {

class RowSource {
 public:
  virtual ~RowSource() = default;
  // The numbers of these rows, one row after the other; no id stands twice. A row that nobody has updated has
  // its first values.
  virtual void pull(int table, std::span<const std::uint64_t> ids, std::span<float> values) = 0;
};

// A replica's way to tables on parameter servers. Used by the training thread.
class RowLink : public RowSource {
 public:
  // What a step of this replica has come to; each step counts once, whoever did it.
  virtual void push(int table, std::int64_t step, double lr, std::span<const std::uint64_t> ids,
                    std::span<const float> gradients) = 0;
  struct Counts {
    std::int64_t rows = 0;  // there are
    std::int64_t gone = 0;  // made place for others
    bool is_open = true;    // else rows of an earlier run are still to come
  };
  // All rows as records (comm::TableSpec::record_bytes), many at a time; `each` empty: they are counted only.
  virtual Counts list(int table, const std::function<void(std::span<const std::byte>)>& each) = 0;
  // Rows of an earlier run, which nobody gets before open().
  virtual void load(int table, std::span<const std::byte> records) = 0;
  virtual void open(int table) = 0;
};

}  // namespace distbelief::tasks
