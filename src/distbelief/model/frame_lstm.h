#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// Bidirectional LSTM layers over frames of features [length, bands], then the classes of each frame:
// [samples, length, classes]. For task `ctc`, where class 0 is the blank.
std::vector<OptionSpec> frame_lstm_options();
Blueprint frame_lstm_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
