#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// Residual networks of He et al., "Deep Residual Learning for Image Recognition" (2015), with the stride of a
// bottleneck in its 3x3 convolution. Parameters and buffers are named as in torchvision, so that weights can
// be exchanged. `depth` is 18, 34, 50, 101 or 152.
std::vector<OptionSpec> resnet_options();
Blueprint resnet_blueprint(int depth, const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
