#include "distbelief/data/formats/table_query.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/data/formats/table_field.h"

namespace distbelief::data {

TableQuery::TableQuery(const std::filesystem::path& path, const TableSchema& schema)
    : schema_(schema),
      reader_(path, schema.delimiter),
      cells_(schema.inputs.size()) {
  if (!schema.has_header) return;
  if (!reader_.next()) throw reader_.fault("the file is empty; a line of column names is wanted");
  find_columns();
}

bool TableQuery::next(float* features) {
  if (!reader_.next()) return false;
  if (places_.empty()) take_columns_of_training();
  if (reader_.size() != width_)
    throw reader_.fault(fmt::format("{} fields are wanted, found {}", width_, reader_.size()));
  for (std::size_t i = 0; i < places_.size(); ++i)
    cells_[i] = schema_.encode_field(reader_, schema_.inputs[i], places_[i]);
  schema_.expand(cells_.data(), features);
  return true;
}

void TableQuery::find_columns() {
  width_ = reader_.size();
  for (const std::size_t input : schema_.inputs) {
    const std::string& name = schema_.columns[input].name;
    std::size_t found = 0;
    for (std::size_t place = 0; place < width_; ++place) {
      if (trimmed(reader_[place]) != name) continue;
      if (++found == 1) places_.push_back(place);
    }
    if (found != 1)
      throw reader_.fault(
          fmt::format("column '{}' is wanted, as in the file that was trained on, and is there {} times; the "
                      "first line has the columns' names",
                      name, found));
  }
}

void TableQuery::take_columns_of_training() {
  width_ = reader_.size();
  const std::size_t columns = schema_.columns.size();
  if (width_ != columns && width_ + 1 != columns)
    throw reader_.fault(fmt::format("{} fields are wanted, or {} without the target, found {}", columns,
                                    columns - 1, width_));
  for (const std::size_t input : schema_.inputs)
    places_.push_back(width_ != columns && input > schema_.target ? input - 1 : input);
}

}  // namespace distbelief::data
