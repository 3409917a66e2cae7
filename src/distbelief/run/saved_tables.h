#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/tasks/row_source.h"

// Tables in a run folder: RUN/tables/step-N/NAME-PIECE.safetensors (docs/reference/formats.md). No tensors.
namespace distbelief::run {

// Writes all rows of the servers and removes older ones except the last `keep`, with a few megabytes of
// memory. Folders become visible only when whole. Returns the counts per table.
std::vector<tasks::RowLink::Counts> save_tables(tasks::RowLink& link,
                                                const std::vector<comm::TableSpec>& tables,
                                                const std::filesystem::path& run_dir, std::int64_t step,
                                                std::size_t keep);

// The folder with the rows of a step, or the newest one; empty when there is none.
std::optional<std::filesystem::path> find_tables(const std::filesystem::path& run_dir,
                                                 std::optional<std::int64_t> step = {});

// Sends saved rows to the servers, with the sums of their update rule. Throws Error(kBadInput) for files that
// are damaged or belong to other tables.
void load_tables(tasks::RowLink& link, const std::vector<comm::TableSpec>& tables,
                 const std::filesystem::path& folder);

// Saved rows of a trained model, read in place. Keeps an index of ids in memory. Throws Error(kBadInput) as
// above.
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
    std::vector<Place> index{};  // sorted by id
  };
  std::vector<comm::TableSpec> specs_;
  std::vector<Table> tables_;
};

}  // namespace distbelief::run
