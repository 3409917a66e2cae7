#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// Wide & Deep (Cheng et al., 2016) on the features of a table: a linear model of the features and, if asked
// for, of their products by twos, beside fully connected layers; their outputs are added.
std::vector<OptionSpec> wide_and_deep_options();
Blueprint wide_and_deep_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
