#include "distbelief/data/table_source.h"

#include "distbelief/base/error.h"
#include "distbelief/data/held_out.h"

namespace distbelief::data {
namespace {

struct LearntTable {
  std::shared_ptr<const TableSchema> schema;
  std::vector<bool> held_out;  // empty: another file is tested on
};

LearntTable learn_parts(const DataConfig& config, const OptionMap& options) {
  if (config.path.empty()) throw Error(ErrorCode::kUnavailable, "set data.path to a CSV or TSV file");
  const TableSurvey survey = survey_table(config.path, options);
  TableSchema schema = decide_roles(survey, options);
  LearntTable learnt;
  if (option<std::string>(options, "test").empty()) learnt.held_out = hold_out(survey.rows, options);
  learn_columns(config.path, learnt.held_out, schema);
  learnt.schema = std::make_shared<const TableSchema>(std::move(schema));
  return learnt;
}

}  // namespace

TableSource::TableSource(std::shared_ptr<const TableSchema> schema) : schema_(std::move(schema)) {
  spec_.input_type = ElementType::kFloat32;
  spec_.input_shape = {schema_->features};
  spec_.table_features = true;
  const bool values = schema_->task == TableTask::kRegression;
  spec_.target_type = values ? ElementType::kFloat32 : ElementType::kInt64;
  if (values) {
    spec_.target_unit = schema_->target_column().deviation;
    spec_.target_mean = schema_->target_column().mean;
    return;
  }
  spec_.class_names = schema_->target_column().categories;
  spec_.classes = static_cast<std::int64_t>(spec_.class_names.size());
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
  const LearntTable learnt = learn_parts(config, options);
  auto train = std::make_unique<TableSource>(learnt.schema);
  auto test = std::make_unique<TableSource>(learnt.schema);
  CsvReader rows = open_rows(config.path, *learnt.schema);
  for (std::size_t i = 0; rows.next(); ++i) {
    const bool held = i < learnt.held_out.size() && learnt.held_out[i];
    (held ? *test : *train).add(rows);
  }
  if (const std::string& other = option<std::string>(options, "test"); !other.empty()) {
    CsvReader more = open_rows(other, *learnt.schema);
    while (more.next()) test->add(more);
    if (test->size() == 0) throw more.fault("the table to test on has no rows");
  }
  return {std::move(train), std::move(test)};
}

TableSchema learn_table(const DataConfig& config) {
  return *learn_parts(config, data_set_options("csv", config.options)).schema;
}

DataSetEntry table_entry() {
  return {"csv", "a table of your own, CSV or TSV: classes or values from columns", table_options(),
          open_table};
}

}  // namespace distbelief::data
