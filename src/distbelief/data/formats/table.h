#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/data/formats/csv.h"

// The meaning of a table's columns, fitted on its files: the conversion of a row of text to model inputs.
namespace distbelief::data {

enum class TableTask { kClassification, kRegression };
enum class ColumnRole { kIgnored, kNumeric, kCategory, kTarget };

struct TableColumn {
  std::string name;
  ColumnRole role = ColumnRole::kIgnored;
  double mean = 0;  // over the training part, like deviation
  double deviation = 1;
  std::vector<std::string> categories{};  // in order, from the training part; for a target: the classes
  bool has_missing = false;               // the training part has missing values; an extra feature marks them
  std::int64_t first_feature = 0;
  std::int64_t features = 0;
};

// One column of a row in 4 bytes: the bits of a standardised float, or the index of a category.
using TableCell = std::uint32_t;

// Immutable once fitted; any thread may use it.
struct TableSchema {
  std::vector<TableColumn> columns;
  std::vector<std::size_t> inputs;  // indices of the input columns, in order
  std::size_t target = 0;           // index of the target column
  TableTask task = TableTask::kClassification;
  bool standardize_target = false;
  std::int64_t features = 0;
  std::vector<std::string> missing;  // words that mean a missing value
  char delimiter = ',';
  char decimal = '.';
  bool has_header = true;

  const TableColumn& target_column() const { return columns[target]; }
  // Encodes the reader's current row. Throws Error(kBadInput) with its line for a bad number, a missing or
  // new target, and a wrong number of fields. A category that training never saw sets no category feature.
  void encode(const CsvReader& row, TableCell* cells) const;  // one cell for each of `inputs`
  // Encodes one column whose field is at position `place` in the row.
  TableCell encode_field(const CsvReader& row, std::size_t column, std::size_t place) const;
  float encode_value(const CsvReader& row) const;         // the target of a regression
  std::int64_t encode_class(const CsvReader& row) const;  // the target of a classification
  void expand(const TableCell* cells, float* features) const;
};

// Statistics of one column over all rows, from which its role is decided.
struct ColumnSurvey {
  std::string name;
  bool numeric = true;         // every value present is a number
  bool integers = true;        // every value present is a whole number
  bool other_decimal = false;  // every value is a number with the other decimal mark (comma or point)
  bool many = false;           // more distinct values than categories allow, or long texts
  std::uint64_t missing = 0;
  std::vector<std::string> values{};  // the distinct values, sorted; empty when there are many
};

struct TableSurvey {
  std::vector<ColumnSurvey> columns;
  std::uint64_t rows = 0;
  char delimiter = ',';
};

// The options of data set "csv"; docs/reference/data_formats.md describes them.
std::vector<OptionSpec> table_options();
TableSurvey survey_table(const std::filesystem::path& path, const OptionMap& options);
// Whether the column would be numeric only with the other decimal mark.
bool has_other_decimal(const ColumnSurvey& column);
// Decides the role of each column. Throws Error(kBadInput) with the option that does not fit.
TableSchema decide_roles(const TableSurvey& survey, const OptionMap& options);
// Computes means, deviations and categories from the rows that are not held out. Reads the file once.
void learn_columns(const std::filesystem::path& path, const std::vector<bool>& held_out, TableSchema& schema);

// Assigns feature positions to the inputs, once categories are known. Throws Error(kBadInput) when there are
// no features or too many.
void place_features(TableSchema& schema);
// Counts the rows after the header, which must match the schema. Reads the file once.
std::uint64_t count_rows(const std::filesystem::path& path, const TableSchema& schema);

// Opens a table at its first row after the header, which must match the schema.
CsvReader open_rows(const std::filesystem::path& path, const TableSchema& schema);

}  // namespace distbelief::data
