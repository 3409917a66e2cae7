#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// LeNet-5 (LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998): two 5 x 5
// convolutions with average pools, then three fully connected layers. Needs images of at least 12 x 12
// pixels; pads images under 32 as the original did.
std::vector<OptionSpec> lenet_options();
Blueprint lenet_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
