#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// Wide & Deep (Cheng et al., 2016) on table features: the sum of a linear model of the features (and
// optionally of their pairwise products) and fully connected layers.
std::vector<OptionSpec> wide_and_deep_options();
Blueprint wide_and_deep_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
