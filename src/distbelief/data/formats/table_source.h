#pragma once

#include <memory>
#include <vector>

#include "distbelief/data/formats/table.h"
#include "distbelief/data/registry.h"

namespace distbelief::data {

// The rows of a table in memory, 4 bytes per column. read() expands categories to features.
class TableSource : public Source {
 public:
  explicit TableSource(std::shared_ptr<const TableSchema> schema);

  void add(const CsvReader& row);  // only before the source is shared
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t index, void* input, void* target) const override;
  const TableSchema& schema() const { return *schema_; }

 private:
  std::shared_ptr<const TableSchema> schema_;
  std::uint64_t size_ = 0;
  std::vector<TableCell> cells_;
  std::vector<float> values_;          // regression
  std::vector<std::int32_t> classes_;  // classification
};

// The sample specification of the table's rows.
SampleSpec table_spec(const TableSchema& schema);

// Surveys, fits and reads the table at [data] path; reads the file three times.
DataSet open_table(const DataConfig& config, const OptionMap& options);
// Surveys and fits the table without reading its rows, for callers that have their own rows.
TableSchema learn_table(const DataConfig& config);

DataSetEntry table_entry();

}  // namespace distbelief::data
