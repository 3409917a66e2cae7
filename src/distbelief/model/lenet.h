#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// LeNet-5 (LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998): two convolutions
// of 5 x 5 with average pools, then three fully connected layers. Images of at least 12 x 12 pixels; those of
// less than 32 are padded as the original was.
std::vector<OptionSpec> lenet_options();
Blueprint lenet_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
