#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "distbelief/data/formats/table.h"

namespace distbelief::data {

// Rows of another table, for a model that was trained on one: the same way from text to features. With a
// header columns are found by name, in any order; those that are no input, such as the target, need not be
// there, and what training did not know is passed over. Without one the columns are those of training, with
// or without the target. Borrows the schema. One thread.
class TableQuery {
 public:
  // Throws Error(kUnavailable) when the file cannot be read, Error(kBadInput) with file and line for a header
  // that lacks an input.
  TableQuery(const std::filesystem::path& path, const TableSchema& schema);

  // Writes the features of the next row; false at the end. Throws Error(kBadInput) with file and line.
  bool next(float* features);
  std::uint64_t line() const { return reader_.line(); }  // of that row

 private:
  void find_columns();
  void take_columns_of_training();

  const TableSchema& schema_;
  CsvReader reader_;
  std::vector<std::size_t> places_;  // of each input
  std::size_t width_ = 0;            // fields of every row
  std::vector<TableCell> cells_;
};

}  // namespace distbelief::data
