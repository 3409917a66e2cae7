#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// Residual networks (He et al., "Deep Residual Learning for Image Recognition", 2015), with the stride of a
// bottleneck in its 3x3 convolution. Parameter and buffer names match torchvision, so weights are
// interchangeable. `depth` is 18, 34, 50, 101 or 152.
std::vector<OptionSpec> resnet_options();
Blueprint resnet_blueprint(int depth, const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
