#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "distbelief/base/error.h"
#include "distbelief/data/formats/table.h"
#include "distbelief/data/formats/table_field.h"
#include "distbelief/data/pipeline/held_out.h"

namespace distbelief::data {
namespace {

constexpr std::size_t kMostCategoryBytes = 256;  // longer texts are not categories
constexpr std::size_t kMostGuessedClasses = 20;  // an integer column with more values is a regression target
constexpr std::int64_t kMostFeatures = 1 << 20;
constexpr std::size_t kMostSurveyBytes = std::size_t{128} << 20;  // for the distinct values of all columns
constexpr std::size_t kValueBytes = 80;                           // overhead of each, besides its characters

Error bad_option(const std::string& name, const std::string& what) {
  return Error(ErrorCode::kBadInput, fmt::format("data set 'csv': option '{}' {}", name, what),
               {.key = "data." + name});
}

char delimiter_of(const std::filesystem::path& path, const OptionMap& options) {
  const std::string& wanted = option<std::string>(options, "delimiter");
  if (wanted == "auto") return guess_delimiter(path);
  if (wanted == "tab") return '\t';
  if (wanted.size() == 1 && wanted != "\"" && wanted != "\n" && wanted != "\r") return wanted[0];
  throw bad_option("delimiter", fmt::format("must be auto, tab or one character, found '{}'", wanted));
}

char decimal_of(const OptionMap& options) {
  const std::string& wanted = option<std::string>(options, "decimal");
  if (wanted == "." || wanted == ",") return wanted[0];
  throw bad_option("decimal", fmt::format("must be \".\" or \",\", found '{}'", wanted));
}

std::vector<std::string> column_names(CsvReader& reader, bool header) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < reader.size(); ++i) {
    names.push_back(header ? std::string(trimmed(reader[i])) : fmt::format("c{}", i + 1));
    if (names.back().empty() || !seen.insert(names.back()).second)
      throw reader.fault(
          fmt::format("column {} is called '{}': names must differ and not be empty; without a line "
                      "of names set option 'header' to false",
                      i + 1, shown(names.back())));
  }
  return names;
}

std::size_t most_categories(const OptionMap& options) {
  const auto most = option<std::int64_t>(options, "most_categories");
  if (most < 2 || most > 100'000) throw bad_option("most_categories", "must be 2 to 100,000");
  return static_cast<std::size_t>(most);
}

// The indices of the columns that an option lists.
std::set<std::size_t> listed(const TableSurvey& survey, const OptionMap& options, const std::string& name) {
  std::set<std::size_t> found;
  std::vector<std::string> names;
  for (const ColumnSurvey& column : survey.columns) names.push_back(column.name);
  for (const std::string& wanted : split_csv_line(option<std::string>(options, name))) {
    const auto column = std::find(names.begin(), names.end(), trimmed(wanted));
    if (column == names.end()) {
      const std::string near = nearest(wanted, names);
      throw bad_option(
          name, fmt::format("names a column '{}', which the table has not; {}", wanted,
                            near.empty()
                                ? fmt::format("it has {}", shown(fmt::format("{}", fmt::join(names, ", "))))
                                : fmt::format("did you mean '{}'?", near)));
    }
    found.insert(static_cast<std::size_t>(column - names.begin()));
  }
  return found;
}

std::size_t target_of(const TableSurvey& survey, const OptionMap& options) {
  if (option<std::string>(options, "target").empty()) return survey.columns.size() - 1;
  const std::set<std::size_t> found = listed(survey, options, "target");
  if (found.size() != 1) throw bad_option("target", "must name one column");
  return *found.begin();
}

// Collects the distinct values of the columns in bounded memory.
class Surveyor {
 public:
  Surveyor(TableSurvey& survey, const OptionMap& options)
      : survey_(survey),
        missing_(split_csv_line(option<std::string>(options, "missing"))),
        decimal_(decimal_of(options)),
        most_(most_categories(options)),
        ignored_(listed(survey, options, "ignore")),
        needed_(listed(survey, options, "category")),
        values_(survey.columns.size()) {
    const std::size_t target = target_of(survey, options);
    needed_.insert(target);
    ignored_.erase(target);
    // With comma as delimiter, a decimal comma within a field cannot be told from other text.
    for (ColumnSurvey& column : survey.columns)
      column.other_decimal = survey.delimiter != ',' || decimal_ == ',';
  }

  void add(const CsvReader& row) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (!ignored_.contains(i)) add(i, trimmed(row[i]));
    if (bytes_ > kMostSurveyBytes) shed();
    if (bytes_ > kMostSurveyBytes)
      throw row.fault(
          fmt::format("the different values of the columns of text take more than {} MiB; name some "
                      "of these in option 'ignore', or lower 'most_categories'",
                      kMostSurveyBytes >> 20));
    ++survey_.rows;
  }

  void finish() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      survey_.columns[i].values.assign(values_[i].begin(), values_[i].end());
      values_[i].clear();
    }
  }

 private:
  void add(std::size_t index, std::string_view field) {
    ColumnSurvey& column = survey_.columns[index];
    if (is_missing(missing_, field)) {
      ++column.missing;
      return;
    }
    double value = 0;
    if (column.other_decimal && !parse_number(field, decimal_ == '.' ? ',' : '.', value))
      column.other_decimal = false;
    if (column.numeric && !parse_number(field, decimal_, value)) column.numeric = column.integers = false;
    if (column.integers && value != std::floor(value)) column.integers = false;
    if (column.many || values_[index].contains(field)) return;
    if (field.size() > kMostCategoryBytes || values_[index].size() == most_) {
      forget(index);
    } else {
      values_[index].emplace(field);
      bytes_ += field.size() + kValueBytes;
    }
  }

  void forget(std::size_t index) {
    for (const std::string& value : values_[index]) bytes_ -= value.size() + kValueBytes;
    values_[index].clear();
    survey_.columns[index].many = true;
  }

  // Drops the values of numeric columns first, because numbers are rarely categories. Such a column that
  // turns out to be text further down then counts as having too many values.
  void shed() {
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (survey_.columns[i].numeric && !needed_.contains(i) && values_[i].size() > kMostGuessedClasses)
        forget(i);
  }

  TableSurvey& survey_;
  std::vector<std::string> missing_;
  char decimal_;
  std::size_t most_;
  std::set<std::size_t> ignored_;
  std::set<std::size_t> needed_;  // collected even when they are numeric
  std::vector<std::set<std::string, std::less<>>> values_;
  std::size_t bytes_ = 0;  // held by values_
};

TableTask task_of(const ColumnSurvey& target, const OptionMap& options) {
  const std::string& wanted = option<std::string>(options, "task");
  if (wanted == "classification") return TableTask::kClassification;
  if (wanted == "regression") return TableTask::kRegression;
  if (wanted != "auto")
    throw bad_option("task", fmt::format("must be auto, classification or regression, found '{}'", wanted));
  const bool few = !target.many && target.values.size() <= kMostGuessedClasses;
  return target.numeric && !(target.integers && few) ? TableTask::kRegression : TableTask::kClassification;
}

// Numbers written with the other decimal mark must not become categories.
void require_decimal(const ColumnSurvey& column, char decimal) {
  if (!has_other_decimal(column)) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("data set 'csv': column '{}' has numbers with a decimal {}{}; set option 'decimal' to "
                  "\"{}\", or name the column in option 'category' or 'ignore'",
                  column.name, decimal == '.' ? "comma" : "point",
                  column.values.empty() ? "" : fmt::format(" such as '{}'", column.values.front()),
                  decimal == '.' ? ',' : '.'));
}

// Sorts numeric classes by number: class 10 comes after 9.
std::vector<std::string> classes_of(const ColumnSurvey& target, char decimal) {
  if (target.many || target.values.size() < 2)
    throw bad_option("target",
                     fmt::format("names column '{}', which has {} different values; classes are wanted",
                                 target.name, target.many ? "too many" : "fewer than 2"));
  std::vector<std::string> classes = target.values;
  if (target.numeric)
    std::stable_sort(classes.begin(), classes.end(), [decimal](const std::string& a, const std::string& b) {
      double x = 0, y = 0;
      return parse_number(a, decimal, x) && parse_number(b, decimal, y) && x < y;
    });
  return classes;
}

// Columns that the options name, by index.
struct WrittenRoles {
  std::set<std::size_t> ignored, numeric, category;
};

// A column named in two options has no single role: refuse rather than guess.
void require_one_role(const TableSurvey& survey, std::size_t target, const WrittenRoles& written) {
  const std::pair<const char*, const std::set<std::size_t>&> lists[] = {
      {"ignore", written.ignored}, {"numeric", written.numeric}, {"category", written.category}};
  for (std::size_t i = 0; i < survey.columns.size(); ++i) {
    const char* first = nullptr;
    for (const auto& [name, columns] : lists) {
      if (!columns.contains(i)) continue;
      if (first != nullptr)
        throw bad_option(name, fmt::format("names column '{}', which is in option '{}' too; which is it?",
                                           survey.columns[i].name, first));
      first = name;
    }
  }
  if (written.ignored.contains(target))
    throw bad_option("ignore", fmt::format("names column '{}', which is the target; name another column "
                                           "in option 'target'",
                                           survey.columns[target].name));
}

ColumnRole role_of(const ColumnSurvey& column, std::size_t index, const WrittenRoles& written) {
  if (written.ignored.contains(index)) return ColumnRole::kIgnored;
  const bool category = written.category.contains(index);
  if (written.numeric.contains(index) || (column.numeric && !category)) return ColumnRole::kNumeric;
  if (!column.many) return ColumnRole::kCategory;
  throw bad_option("ignore",
                   fmt::format("should name column '{}': it has more different values than categories "
                               "may have (option most_categories)",
                               column.name));
}

// Welford's algorithm: stays accurate for values far from 0.
struct Moments {
  std::uint64_t count = 0;
  double mean = 0;
  double squares = 0;

  void add(double value) {
    const double off = value - mean;
    mean += off / static_cast<double>(++count);
    squares += off * (value - mean);
  }
  double deviation() const {
    const double result = count == 0 ? 0.0 : std::sqrt(squares / static_cast<double>(count));
    return result > 0 && std::isfinite(result) ? result : 1.0;
  }
};

struct ColumnLearner {
  Moments moments;
  std::set<std::string, std::less<>> words;
};

void learn_field(const CsvReader& row, std::string_view field, const TableSchema& schema,
                 const TableColumn& column, ColumnLearner& learner) {
  double value = 0;
  if (column.role == ColumnRole::kCategory) {
    if (!learner.words.contains(field)) learner.words.emplace(field);
  } else if (parse_number(field, schema.decimal, value)) {
    learner.moments.add(value);
  } else {
    throw row.fault(
        fmt::format("column '{}' wants a number, found '{}'; make it a category, or ignore it, or name "
                    "the word in option 'missing'",
                    column.name, shown(field)));
  }
}

}  // namespace

std::vector<OptionSpec> table_options() {
  std::vector<OptionSpec> options = {
      {"target", std::string(), "column to predict; empty: the last one"},
      {"task", std::string("auto"), "classification, regression, or auto: by what the target holds"},
      {"ignore", std::string(), "columns to leave out, with commas between"},
      {"numeric", std::string(), "columns to read as numbers, whatever they look like"},
      {"category", std::string(), "columns to read as categories, such as codes written as numbers"},
      {"missing", std::string("NA,N/A,NaN,nan,null,NULL,?"),
       "words for a value that is not there, besides nothing"},
      {"most_categories", std::int64_t{1000}, "different values that a category may have"},
      {"standardize_target", false, "regression: predict (value - mean) / deviation"},
      {"delimiter", std::string("auto"), "auto, tab, or the character"},
      {"decimal", std::string("."), "what stands before decimals: \".\", or \",\""},
      {"header", true, "the first line has the columns' names; otherwise they are c1, c2, ..."},
      {"test", std::string(), "another file to test on; empty: a share of this one"}};
  for (OptionSpec& held : held_out_options()) options.push_back(std::move(held));
  return options;
}

void place_features(TableSchema& schema) {
  for (const std::size_t index : schema.inputs) {
    TableColumn& column = schema.columns[index];
    const auto width = column.role == ColumnRole::kNumeric ? 1 : std::int64_t(column.categories.size());
    column.first_feature = schema.features;
    column.features = width + (column.has_missing ? 1 : 0);
    schema.features += column.features;
  }
  if (schema.features == 0 || schema.features > kMostFeatures)
    throw bad_option(
        "ignore", fmt::format("must leave 1 to {} features, there are {}", kMostFeatures, schema.features));
}

TableSurvey survey_table(const std::filesystem::path& path, const OptionMap& options) {
  TableSurvey survey{.columns = {}, .rows = 0, .delimiter = delimiter_of(path, options)};
  CsvReader reader(path, survey.delimiter);
  if (!reader.next()) throw reader.fault("the file is empty");
  const bool header = option<bool>(options, "header");
  for (std::string& name : column_names(reader, header)) survey.columns.push_back({.name = std::move(name)});
  Surveyor surveyor(survey, options);
  for (bool more = header ? reader.next() : true; more; more = reader.next()) {
    if (reader.size() != survey.columns.size())
      throw reader.fault(fmt::format("{} fields are wanted, found {}", survey.columns.size(), reader.size()));
    surveyor.add(reader);
  }
  surveyor.finish();
  if (survey.rows == 0) throw reader.fault("the table has no rows");
  return survey;
}

bool has_other_decimal(const ColumnSurvey& column) { return !column.numeric && column.other_decimal; }

TableSchema decide_roles(const TableSurvey& survey, const OptionMap& options) {
  TableSchema schema;
  schema.delimiter = survey.delimiter;
  schema.decimal = decimal_of(options);
  schema.has_header = option<bool>(options, "header");
  schema.missing = split_csv_line(option<std::string>(options, "missing"));
  schema.target = target_of(survey, options);
  schema.task = task_of(survey.columns[schema.target], options);
  schema.standardize_target = option<bool>(options, "standardize_target");
  const WrittenRoles written{.ignored = listed(survey, options, "ignore"),
                             .numeric = listed(survey, options, "numeric"),
                             .category = listed(survey, options, "category")};
  require_one_role(survey, schema.target, written);
  for (std::size_t i = 0; i < survey.columns.size(); ++i) {
    const bool target = i == schema.target;
    if (!written.ignored.contains(i) && !written.category.contains(i))
      require_decimal(survey.columns[i], schema.decimal);
    TableColumn column{.name = survey.columns[i].name,
                       .role = target ? ColumnRole::kTarget : role_of(survey.columns[i], i, written)};
    if (!target && column.role != ColumnRole::kIgnored) schema.inputs.push_back(i);
    schema.columns.push_back(std::move(column));
  }
  if (schema.task == TableTask::kClassification)
    schema.columns[schema.target].categories = classes_of(survey.columns[schema.target], schema.decimal);
  return schema;
}

void learn_columns(const std::filesystem::path& path, const std::vector<bool>& held_out,
                   TableSchema& schema) {
  std::vector<std::size_t> learnt = schema.inputs;
  if (schema.task == TableTask::kRegression && schema.standardize_target) learnt.push_back(schema.target);
  std::vector<ColumnLearner> learners(schema.columns.size());
  CsvReader reader = open_rows(path, schema);
  for (std::size_t row = 0; reader.next(); ++row) {
    if (row < held_out.size() && held_out[row]) continue;
    if (reader.size() != schema.columns.size())
      throw reader.fault(fmt::format("{} fields are wanted, found {}", schema.columns.size(), reader.size()));
    for (const std::size_t index : learnt) {
      const std::string_view field = trimmed(reader[index]);
      if (is_missing(schema.missing, field))
        schema.columns[index].has_missing = true;
      else
        learn_field(reader, field, schema, schema.columns[index], learners[index]);
    }
  }
  for (const std::size_t index : learnt) {
    TableColumn& column = schema.columns[index];
    column.mean = learners[index].moments.mean;
    column.deviation = learners[index].moments.deviation();
    if (column.role == ColumnRole::kCategory)
      column.categories.assign(learners[index].words.begin(), learners[index].words.end());
  }
  place_features(schema);
}

}  // namespace distbelief::data
