#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/tensor_group.h"

// Requirements of models on their data and options. Each function throws Error(kBadInput) with the model, the
// value found and the valid ones.
namespace distbelief::model {

void require_images(std::string_view model, const DataShape& shape);  // [channels, height, width] and classes
void require_features(std::string_view model, const DataShape& shape);  // [count] of a table
void require_dense(std::string_view model, const DataShape& shape);     // images or features
void require_tokens(std::string_view model, const DataShape& shape);    // [length] and a vocabulary

// Resolved options after a range check.
std::int64_t positive_option(std::string_view model, const OptionMap& options, const std::string& name);
std::vector<std::int64_t> positive_list_option(std::string_view model, const OptionMap& options,
                                               const std::string& name);
double dropout_option(std::string_view model, const OptionMap& options);  // "dropout", in [0, 1)

// Part `part` of `parts` of a layer's width. Throws Error(kBadInput) with the layer unless it divides evenly.
SliceRange even_share(std::string_view layer, std::int64_t width, const TensorGroup& group);

// The error for a name that a table lacks: gives the nearest name and all known ones. `key` is the job's key
// with that name.
Error unknown_name(std::string_view kind, const std::string& key, const std::string& name,
                   const std::vector<std::string>& known);

}  // namespace distbelief::model
