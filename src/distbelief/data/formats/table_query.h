#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "distbelief/data/formats/table.h"

namespace distbelief::data {

// Reads rows of another table for a model that was trained on a table, with the same conversion to features.
// With a header, columns are found by name in any order; columns other than inputs may be missing, and
// unknown columns are skipped. Without a header, the columns are those of the training table, with or without
// the target. Borrows the schema. Use from one thread.
class TableQuery {
 public:
  // Throws Error(kUnavailable) when the file cannot be read, and Error(kBadInput) with file and line for a
  // header that lacks an input.
  TableQuery(const std::filesystem::path& path, const TableSchema& schema);

  // Writes the features of the next row; false at the end. Throws Error(kBadInput) with file and line.
  bool next(float* features);
  std::uint64_t line() const { return reader_.line(); }  // the line of that row

 private:
  void find_columns();
  void take_columns_of_training();

  const TableSchema& schema_;
  CsvReader reader_;
  std::vector<std::size_t> places_;  // field position of each input
  std::size_t width_ = 0;            // number of fields in every row
  std::vector<TableCell> cells_;
};

}  // namespace distbelief::data
