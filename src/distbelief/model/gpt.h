#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// A decoder of pre-norm transformer blocks with learned positions: Radford et al., "Language Models are
// Unsupervised Multitask Learners" (2019). Gives [batch * length, vocabulary].
std::vector<OptionSpec> gpt_options();
Blueprint gpt_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
