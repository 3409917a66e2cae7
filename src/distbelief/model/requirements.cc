#include "distbelief/model/requirements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace distbelief::model {
namespace {

struct FoundKind {
  const char* data;
  const char* model;  // example of a model for such data
};
FoundKind kind_of(const DataShape& shape) {
  if (shape.tokens) return {"tokens", "gpt"};
  return shape.input.size() == 1 ? FoundKind{"features", "mlp"} : FoundKind{"images", "cnn"};
}

std::string targets_of(const DataShape& shape) {
  if (shape.classes > 0) return fmt::format("{} {}", shape.classes, shape.classes == 1 ? "class" : "classes");
  if (shape.values > 0) return fmt::format("{} to predict", shape.values == 1 ? "a value" : "values");
  return "nothing to predict";
}

// `wanted` begins with the kind of data: "images [...] and ...".
Error misfit(std::string_view model, std::string_view wanted, const DataShape& shape) {
  const FoundKind found = kind_of(shape);
  const std::string_view kind = wanted.substr(0, wanted.find(' '));
  const std::string other =
      kind == found.data ? "" : fmt::format(", or a model for {} such as {}", found.data, found.model);
  return Error(ErrorCode::kBadInput,
               fmt::format("model '{}' wants {}, found {} {} with {}; choose data of {}{}", model, wanted,
                           found.data, to_string(shape.input), targets_of(shape), kind, other),
               {.key = "model.name"});
}

bool all_positive(const std::vector<std::int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [](std::int64_t value) { return value > 0; });
}

Error out_of_range(std::string_view model, const std::string& name, const std::string& wanted,
                   const OptionMap& options) {
  return Error(ErrorCode::kBadInput,
               fmt::format("model '{}': option '{}' must be {}, found {}", model, name, wanted,
                           to_string(options.at(name))),
               {.key = "model." + name});
}

}  // namespace

void require_images(std::string_view model, const DataShape& shape) {
  if (shape.tokens || shape.input.size() != 3 || !all_positive(shape.input) || shape.outputs() < 1) {
    throw misfit(model, "images [channels, height, width] and something to predict", shape);
  }
}

void require_dense(std::string_view model, const DataShape& shape) {
  if (!shape.tokens && shape.input.size() == 1 && all_positive(shape.input) && shape.outputs() > 0) return;
  require_images(model, shape);
}

void require_features(std::string_view model, const DataShape& shape) {
  if (shape.tokens || shape.input.size() != 1 || !all_positive(shape.input) || shape.outputs() < 1) {
    throw misfit(model, "features [count] and something to predict", shape);
  }
}

void require_tokens(std::string_view model, const DataShape& shape) {
  if (!shape.tokens || shape.input.size() != 1 || !all_positive(shape.input) || shape.classes < 1) {
    throw misfit(model, "tokens [length] and a vocabulary", shape);
  }
}

std::int64_t positive_option(std::string_view model, const OptionMap& options, const std::string& name) {
  const auto value = option<std::int64_t>(options, name);
  if (value < 1) throw out_of_range(model, name, "at least 1", options);
  return value;
}

std::vector<std::int64_t> positive_list_option(std::string_view model, const OptionMap& options,
                                               const std::string& name) {
  const auto& values = option<std::vector<std::int64_t>>(options, name);
  if (!all_positive(values)) throw out_of_range(model, name, "a list of integers of at least 1", options);
  return values;
}

double dropout_option(std::string_view model, const OptionMap& options) {
  const auto value = option<double>(options, "dropout");
  if (!(value >= 0.0 && value < 1.0)) throw out_of_range(model, "dropout", "at least 0 and below 1", options);
  return value;
}

SliceRange even_share(std::string_view layer, std::int64_t width, const TensorGroup& group) {
  if (width % group.parts() == 0) return share_of(width, group.part(), group.parts());
  std::string fitting;
  for (int parts = 2; parts <= 64; ++parts)
    if (width % parts == 0) fitting += (fitting.empty() ? "" : ", ") + std::to_string(parts);
  throw Error(ErrorCode::kBadInput,
              fmt::format("{} has width {}, which parallel.tensor {} does not divide; {}", layer, width,
                          group.parts(), fitting.empty() ? "change its width" : "tensor may be " + fitting),
              {.key = "parallel.tensor"});
}

Error unknown_name(std::string_view kind, const std::string& key, const std::string& name,
                   const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  const std::string hint = near.empty() ? "." : fmt::format("; did you mean '{}'?", near);
  return Error(ErrorCode::kBadInput,
               fmt::format("no {} is named '{}'{} Known: {}", kind, name, hint, fmt::join(known, ", ")),
               {.key = key});
}

}  // namespace distbelief::model
