#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// U-Net (Ronneberger et al., 2015) with padded convolutions and batch norm: `depth` times two convolutions
// and a max-pool, two convolutions at the bottom, and as many ways up that each take in what the way down had
// at that size. Gives [samples, classes, height, width]. Between blocks all that is still needed goes along
// in one flat array, so that a pipeline may cut anywhere.
std::vector<OptionSpec> unet_options();
Blueprint unet_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
