#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// For each entry of `channels` a 3x3 convolution, activation and 2x2 max-pool; then a hidden linear layer
// with activation and dropout, and a linear layer to the classes.
std::vector<OptionSpec> cnn_options();
Blueprint cnn_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
