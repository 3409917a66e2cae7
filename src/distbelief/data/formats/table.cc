#include "distbelief/data/formats/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "distbelief/base/error.h"
#include "distbelief/data/formats/table_field.h"

namespace distbelief::data {
namespace {

constexpr TableCell kNoCategory = std::numeric_limits<TableCell>::max();
constexpr TableCell kMissingCategory = kNoCategory - 1;

void require_width(const CsvReader& row, std::size_t columns) {
  if (row.size() == columns) return;
  throw row.fault(fmt::format("{} fields are wanted, found {}", columns, row.size()));
}

double number_of(const CsvReader& row, const TableColumn& column, std::string_view field, char decimal) {
  double value = 0;
  if (!parse_number(field, decimal, value))
    throw row.fault(
        fmt::format("column '{}' wants a number, found '{}'; make it a category, or ignore it, or "
                    "name the word in option 'missing'",
                    column.name, shown(field)));
  return (value - column.mean) / column.deviation;
}

// The index of the word among the categories, or kNoCategory.
TableCell place_of(const std::vector<std::string>& sorted, std::string_view word) {
  const auto found = std::lower_bound(sorted.begin(), sorted.end(), word);
  return found == sorted.end() || *found != word ? kNoCategory
                                                 : static_cast<TableCell>(found - sorted.begin());
}

std::string_view target_field(const TableSchema& schema, const CsvReader& row) {
  require_width(row, schema.columns.size());
  const std::string_view field = trimmed(row[schema.target]);
  if (is_missing(schema.missing, field))
    throw row.fault(fmt::format("column '{}' is the target and has no value here; remove the row",
                                schema.target_column().name));
  return field;
}

}  // namespace

void TableSchema::encode(const CsvReader& row, TableCell* cells) const {
  require_width(row, columns.size());
  for (const std::size_t index : inputs) *cells++ = encode_field(row, index, index);
}

TableCell TableSchema::encode_field(const CsvReader& row, std::size_t index, std::size_t place) const {
  const TableColumn& column = columns[index];
  const std::string_view field = trimmed(row[place]);
  const bool gone = is_missing(missing, field);
  if (column.role == ColumnRole::kNumeric)
    return std::bit_cast<TableCell>(gone ? std::numeric_limits<float>::quiet_NaN()
                                         : static_cast<float>(number_of(row, column, field, decimal)));
  return gone ? kMissingCategory : place_of(column.categories, field);
}

float TableSchema::encode_value(const CsvReader& row) const {
  return static_cast<float>(number_of(row, target_column(), target_field(*this, row), decimal));
}

std::int64_t TableSchema::encode_class(const CsvReader& row) const {
  const std::string_view field = target_field(*this, row);
  const auto& classes = target_column().categories;
  if (const TableCell place = place_of(classes, field); place != kNoCategory) return place;
  // Numeric classes are sorted by number, so binary search over their text may miss one.
  const auto found = std::find(classes.begin(), classes.end(), field);
  if (found == classes.end())
    throw row.fault(fmt::format("class '{}' of column '{}' is not among those trained on", shown(field),
                                target_column().name));
  return found - classes.begin();
}

void TableSchema::expand(const TableCell* cells, float* out) const {
  std::fill(out, out + features, 0.0F);
  for (const std::size_t index : inputs) {
    const TableColumn& column = columns[index];
    float* first = out + column.first_feature;
    const TableCell cell = *cells++;
    if (column.role == ColumnRole::kNumeric) {
      const float value = std::bit_cast<float>(cell);
      if (!std::isnan(value))
        first[0] = value;
      else if (column.has_missing)
        first[1] = 1.0F;
    } else if (cell < column.categories.size()) {
      first[cell] = 1.0F;
    } else if (cell == kMissingCategory && column.has_missing) {
      first[column.categories.size()] = 1.0F;
    }
  }
}

CsvReader open_rows(const std::filesystem::path& path, const TableSchema& schema) {
  CsvReader reader(path, schema.delimiter);
  if (!schema.has_header) return reader;
  if (!reader.next()) throw reader.fault("the file is empty; a line of column names is wanted");
  require_width(reader, schema.columns.size());
  for (std::size_t i = 0; i < schema.columns.size(); ++i)
    if (trimmed(reader[i]) != schema.columns[i].name)
      throw reader.fault(fmt::format("column {} must be '{}', as in the file to train on, found '{}'", i + 1,
                                     schema.columns[i].name, shown(reader[i])));
  return reader;
}

std::uint64_t count_rows(const std::filesystem::path& path, const TableSchema& schema) {
  CsvReader reader = open_rows(path, schema);
  std::uint64_t rows = 0;
  while (reader.next()) ++rows;
  if (rows == 0) throw reader.fault("the table has no rows");
  return rows;
}

}  // namespace distbelief::data
