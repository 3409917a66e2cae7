#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// U-Net (Ronneberger et al., 2015) with padded convolutions and batch norm: `depth` times two convolutions
// and a max-pool, two convolutions at the bottom, and as many up-steps that join the result of the same size
// from the way down. Outputs [samples, classes, height, width]. Blocks pass everything that is still needed
// in one flat array, so that a pipeline may cut anywhere.
std::vector<OptionSpec> unet_options();
Blueprint unet_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
