#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// The child-sum Tree-LSTM (Tai et al., 2015) on trees in the format of data/formats/tree.h: [samples, nodes,
// 2], children before parents, the root last, any number of children. Outputs the classes of the root.
std::vector<OptionSpec> tree_lstm_options();
Blueprint tree_lstm_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
