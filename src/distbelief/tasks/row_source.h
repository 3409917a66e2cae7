#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "distbelief/comm/rpc/store.h"

// Access to the rows of a task's tables, independent of where they are stored. A table is identified by its
// index in Task::tables(). Uses no tensors. All functions block and throw Error.
namespace distbelief::tasks {

class RowSource {
 public:
  virtual ~RowSource() = default;
  // Reads the values of these rows, one row after another; `ids` must be distinct. A row without updates has
  // its first values.
  virtual void pull(int table, std::span<const std::uint64_t> ids, std::span<float> values) = 0;
};

// A replica's access to tables on parameter servers. Used by the training thread.
class RowLink : public RowSource {
 public:
  // Pushes the gradients of a step of this replica; each step counts once, even if several replicas do it.
  virtual void push(int table, std::int64_t step, double lr, std::span<const std::uint64_t> ids,
                    std::span<const float> gradients) = 0;
  struct Counts {
    std::int64_t rows = 0;  // existing rows
    std::int64_t gone = 0;  // rows evicted to make room for others
    bool is_open = true;    // false: rows of an earlier run are still to be loaded
  };
  // Passes all rows as records (comm::TableSpec::record_bytes) to `each`, many at a time; an empty `each`
  // only counts them.
  virtual Counts list(int table, const std::function<void(std::span<const std::byte>)>& each) = 0;
  // Loads rows of an earlier run. Nobody can read them before open().
  virtual void load(int table, std::span<const std::byte> records) = 0;
  virtual void open(int table) = 0;
};

}  // namespace distbelief::tasks
