#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// A wide residual network (Zagoruyko and Komodakis, 2016): groups of pre-activated blocks of two 3 x 3
// convolutions. Each group is `factor` times as wide as given in `widths`; from the second on, each halves
// the image size. `depth` counts convolutions: depth = 2 * groups * n + groups + 1 for n blocks in a group,
// so 6 n + 4 for the usual three groups.
std::vector<OptionSpec> wide_resnet_options();
Blueprint wide_resnet_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
