#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/data/formats/csv.h"

// What the columns of a table mean, learnt from its files: the way from a row of text to numbers for a model.
namespace distbelief::data {

enum class TableTask { kClassification, kRegression };
enum class ColumnRole { kIgnored, kNumeric, kCategory, kTarget };

struct TableColumn {
  std::string name;
  ColumnRole role = ColumnRole::kIgnored;
  double mean = 0;  // of the training part
  double deviation = 1;
  std::vector<std::string> categories{};  // in order; of the training part. Of a target: the classes
  bool has_missing = false;               // in the training part: then a feature of its own says so
  std::int64_t first_feature = 0;
  std::int64_t features = 0;
};

// A row's columns in 4 bytes each: the bits of a standardised float, or the number of a category.
using TableCell = std::uint32_t;

// Fixed once learnt; any thread may use it.
struct TableSchema {
  std::vector<TableColumn> columns;
  std::vector<std::size_t> inputs;  // columns that are features, in order
  std::size_t target = 0;           // column
  TableTask task = TableTask::kClassification;
  bool standardize_target = false;
  std::int64_t features = 0;
  std::vector<std::string> missing;  // words that say that a value is not there
  char delimiter = ',';
  char decimal = '.';
  bool has_header = true;

  const TableColumn& target_column() const { return columns[target]; }
  // The row that the reader is at. Throws Error(kBadInput) with its line for a number that is none, a target
  // that is missing or new, and a wrong count of fields. A category that training never saw is like none of
  // them.
  void encode(const CsvReader& row, TableCell* cells) const;  // one for each of `inputs`
  // One of them, whose field stands at another place in the row.
  TableCell encode_field(const CsvReader& row, std::size_t column, std::size_t place) const;
  float encode_value(const CsvReader& row) const;         // the target of a regression
  std::int64_t encode_class(const CsvReader& row) const;  // and of a classification
  void expand(const TableCell* cells, float* features) const;
};

// One column over all rows: what decides its role.
struct ColumnSurvey {
  std::string name;
  bool numeric = true;         // every value that is there is a number
  bool integers = true;        // and whole
  bool other_decimal = false;  // ... with the other mark before decimals, comma or point
  bool many = false;           // more different values than categories may have, or long texts
  std::uint64_t missing = 0;
  std::vector<std::string> values{};  // the different ones, sorted, unless there are many
};

struct TableSurvey {
  std::vector<ColumnSurvey> columns;
  std::uint64_t rows = 0;
  char delimiter = ',';
};

// Options of data set "csv" are resolved here: docs/reference/data_formats.md.
std::vector<OptionSpec> table_options();
TableSurvey survey_table(const std::filesystem::path& path, const OptionMap& options);
// Whether a column would be of numbers with the other mark before decimals, and only so.
bool has_other_decimal(const ColumnSurvey& column);
// Which role each column has. Throws Error(kBadInput) naming the option that does not fit.
TableSchema decide_roles(const TableSurvey& survey, const OptionMap& options);
// Means, deviations and categories, from the rows that are not held out. Reads the file once.
void learn_columns(const std::filesystem::path& path, const std::vector<bool>& held_out, TableSchema& schema);

// Where the features of each input stand, once categories are known. Throws Error(kBadInput) for none or too
// many.
void place_features(TableSchema& schema);
// Rows of the file after its header, which must be the schema's. Reads the file once.
std::uint64_t count_rows(const std::filesystem::path& path, const TableSchema& schema);

// Opens a table at its first row after the header, which must be the schema's.
CsvReader open_rows(const std::filesystem::path& path, const TableSchema& schema);

}  // namespace distbelief::data
