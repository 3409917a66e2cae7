#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// A wide residual network (Zagoruyko and Komodakis, 2016): groups of pre-activated blocks of two 3 x 3
// convolutions, each group `factor` times as wide as given in `widths` and, from the second on, half as
// large. `depth` counts convolutions: depth = 2 * groups * n + groups + 1, with n blocks in a group; for the
// usual three groups 6 n + 4.
std::vector<OptionSpec> wide_resnet_options();
Blueprint wide_resnet_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
