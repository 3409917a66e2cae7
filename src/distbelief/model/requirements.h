#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/tensor_group.h"

// What models ask of their data and options. Each throws Error(kBadInput) that names the model, what was
// found and what would fit.
namespace distbelief::model {

void require_images(std::string_view model, const DataShape& shape);  // [channels, height, width] and classes
void require_features(std::string_view model, const DataShape& shape);  // [count] of a table
void require_dense(std::string_view model, const DataShape& shape);     // images or features
void require_tokens(std::string_view model, const DataShape& shape);    // [length] and a vocabulary

// Resolved options, checked for their range.
std::int64_t positive_option(std::string_view model, const OptionMap& options, const std::string& name);
std::vector<std::int64_t> positive_list_option(std::string_view model, const OptionMap& options,
                                               const std::string& name);
double dropout_option(std::string_view model, const OptionMap& options);  // "dropout", in [0, 1)

// Part `part` of `parts` of a layer's width. Throws Error(kBadInput), naming the layer, unless it can be
// shared out evenly.
SliceRange even_share(std::string_view layer, std::int64_t width, const TensorGroup& group);

// The error for a name that no table has: the nearest one, and all that exist.
// `key`: of the job, that names it.
Error unknown_name(std::string_view kind, const std::string& key, const std::string& name,
                   const std::vector<std::string>& known);

}  // namespace distbelief::model
