#pragma once

#include <memory>
#include <vector>

#include "distbelief/data/formats/table.h"
#include "distbelief/data/registry.h"

namespace distbelief::data {

// Rows of a table in memory, 4 bytes a column; categories become features when a row is read.
class TableSource : public Source {
 public:
  explicit TableSource(std::shared_ptr<const TableSchema> schema);

  void add(const CsvReader& row);  // before it is shared
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

// What its rows are as samples.
SampleSpec table_spec(const TableSchema& schema);

// Surveys, learns and reads the table that [data] path names, three times through the file.
DataSet open_table(const DataConfig& config, const OptionMap& options);
// The first two of these alone: for who has rows of his own.
TableSchema learn_table(const DataConfig& config);

DataSetEntry table_entry();

}  // namespace distbelief::data
