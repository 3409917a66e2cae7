#include "distbelief/data/formats/table_source.h"

#include "distbelief/base/error.h"
#include "distbelief/data/known_set.h"
#include "distbelief/data/pipeline/held_out.h"

namespace distbelief::data {
namespace {

struct LearntTable {
  std::shared_ptr<const Learnt> learnt;
  std::vector<bool> held_out{};  // empty: a separate file holds the test rows
};

void require_table_path(const DataConfig& config) {
  if (config.path.empty()) throw Error(ErrorCode::kUnavailable, "set data.path to a CSV or TSV file");
}

std::vector<bool> held_out_rows(std::uint64_t rows, const OptionMap& options) {
  if (!option<std::string>(options, "test").empty()) return {};
  return hold_out(rows, options);
}

LearntTable learn_parts(const DataConfig& config, const OptionMap& options) {
  require_table_path(config);
  const TableSurvey survey = survey_table(config.path, options);
  TableSchema schema = decide_roles(survey, options);
  LearntTable table{.learnt = {}, .held_out = held_out_rows(survey.rows, options)};
  learn_columns(config.path, table.held_out, schema);
  table.learnt = std::make_shared<const Learnt>(Learnt{.table = std::move(schema)});
  return table;
}

DataSet read_rows(const DataConfig& config, const OptionMap& options, const LearntTable& table) {
  const std::shared_ptr<const TableSchema> schema(table.learnt, &*table.learnt->table);
  auto train = std::make_unique<TableSource>(schema);
  auto test = std::make_unique<TableSource>(schema);
  CsvReader rows = open_rows(config.path, *schema);
  for (std::size_t i = 0; rows.next(); ++i) {
    const bool held = i < table.held_out.size() && table.held_out[i];
    (held ? *test : *train).add(rows);
  }
  if (const std::string& other = option<std::string>(options, "test"); !other.empty()) {
    CsvReader more = open_rows(other, *schema);
    while (more.next()) test->add(more);
    if (test->size() == 0) throw more.fault("the table to test on has no rows");
  }
  return {std::move(train), std::move(test), table.learnt, table.held_out.size()};
}

// Keeps the meaning of the columns from `known`, whatever rows the file has now.
DataSet reopen_table(const DataConfig& config, const OptionMap& options, const KnownSet& known) {
  require_table_path(config);
  if (!known.learnt || !known.learnt->table) return open_table(config, options);
  LearntTable table{.learnt = known.learnt};
  table.held_out = held_out_rows(count_rows(config.path, *known.learnt->table), options);
  return read_rows(config, options, table);
}

}  // namespace

SampleSpec table_spec(const TableSchema& schema) {
  SampleSpec spec;
  spec.input_type = ElementType::kFloat32;
  spec.input_shape = {schema.features};
  spec.table_features = true;
  const bool values = schema.task == TableTask::kRegression;
  spec.target_type = values ? ElementType::kFloat32 : ElementType::kInt64;
  if (values) {
    spec.target_unit = schema.target_column().deviation;
    spec.target_mean = schema.target_column().mean;
    return spec;
  }
  spec.class_names = schema.target_column().categories;
  spec.classes = static_cast<std::int64_t>(spec.class_names.size());
  return spec;
}

TableSource::TableSource(std::shared_ptr<const TableSchema> schema) : schema_(std::move(schema)) {
  spec_ = table_spec(*schema_);
}

void TableSource::add(const CsvReader& row) {
  const std::size_t have = cells_.size();
  cells_.resize(have + schema_->inputs.size());
  schema_->encode(row, cells_.data() + have);
  if (schema_->task == TableTask::kRegression)
    values_.push_back(schema_->encode_value(row));
  else
    classes_.push_back(static_cast<std::int32_t>(schema_->encode_class(row)));
  ++size_;
}

void TableSource::read(std::uint64_t index, void* input, void* target) const {
  DISTBELIEF_INVARIANT(index < size_);
  schema_->expand(cells_.data() + index * schema_->inputs.size(), static_cast<float*>(input));
  if (schema_->task == TableTask::kRegression)
    *static_cast<float*>(target) = values_[index];
  else
    *static_cast<std::int64_t*>(target) = classes_[index];
}

DataSet open_table(const DataConfig& config, const OptionMap& options) {
  return read_rows(config, options, learn_parts(config, options));
}

TableSchema learn_table(const DataConfig& config) {
  return learn_parts(config, data_set_options("csv", config.options)).learnt->table.value();
}

DataSetEntry table_entry() {
  return {"csv",           "a table of your own, CSV or TSV: classes or values from columns",
          table_options(), open_table,
          reopen_table,    SampleOrder::kByClass};
}

}  // namespace distbelief::data
