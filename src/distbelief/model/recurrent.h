#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// Recurrent language models: an embedding, `layers` of LSTM or GRU, a linear layer over the vocabulary. With
// `streams` above 0 (it must equal train.batch_size, and data.order must be "streams") a layer starts from
// the state that the previous step left at the same place of the batch: back-propagation is truncated to a
// sample's length, the state is not. The rows of state are a buffer of the layer (model/lane_place.h).
// Validation reads the samples of each chunk as one sequence, from zero.
std::vector<OptionSpec> recurrent_options();
Blueprint lstm_blueprint(const OptionMap& options, const DataShape& shape);
Blueprint gru_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
