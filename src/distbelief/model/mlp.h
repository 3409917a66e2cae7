#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// Flatten; a linear layer, activation and dropout for each width in `hidden`; a linear layer to the classes.
std::vector<OptionSpec> mlp_options();
Blueprint mlp_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
