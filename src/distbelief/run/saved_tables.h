#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/tasks/row_source.h"

// Tables in a run folder: RUN/tables/step-N/NAME-PIECE.safetensors (docs/reference/formats.md). No tensors.
namespace distbelief::run {

// Writes all rows that the servers have, and removes older ones but the last `keep`; a few megabytes of
// memory at a time. What is there in the end is whole. Gives what was counted, by table.
std::vector<tasks::RowLink::Counts> save_tables(tasks::RowLink& link,
                                                const std::vector<comm::TableSpec>& tables,
                                                const std::filesystem::path& run_dir, std::int64_t step,
                                                std::size_t keep);

// Where the rows of a step lie, or the newest ones; nothing when there are none.
std::optional<std::filesystem::path> find_tables(const std::filesystem::path& run_dir,
                                                 std::optional<std::int64_t> step = {});

// Hands saved rows to servers, with the sums of their update rule. Throws Error(kBadInput) for files that are
// damaged or of other tables.
void load_tables(tasks::RowLink& link, const std::vector<comm::TableSpec>& tables,
                 const std::filesystem::path& folder);

// Saved rows, read in place: for who uses a trained model. An index of ids is held in memory. Throws
// Error(kBadInput) as above.
class SavedTables final : public tasks::RowSource {
 public:
  SavedTables(const std::filesystem::path& folder, std::vector<comm::TableSpec> tables);
  void pull(int table, std::span<const std::uint64_t> ids, std::span<float> values) override;
  // Null: the row was never updated.
  const float* find(int table, std::uint64_t id) const;
  std::size_t rows(int table) const { return tables_[std::size_t(table)].index.size(); }

 private:
  struct Place {
    std::uint64_t id = 0;
    const float* values = nullptr;
  };
  struct Table {
    std::vector<checkpoint::SafetensorsFile> pieces{};
    std::vector<Place> index{};  // by id
  };
  std::vector<comm::TableSpec> specs_;
  std::vector<Table> tables_;
};

}  // namespace distbelief::run
