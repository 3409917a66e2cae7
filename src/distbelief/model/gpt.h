#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// A decoder of pre-norm transformer blocks with learned positions: Radford et al., "Language Models are
// Unsupervised Multitask Learners" (2019). The output is [batch * length, vocabulary].
std::vector<OptionSpec> gpt_options();
Blueprint gpt_blueprint(const OptionMap& options, const DataShape& shape);

// An encoder of the same blocks in which every position sees all others (Devlin et al., "BERT", 2018), for
// inputs with masked tokens: the mask is an extra token after the vocabulary.
std::vector<OptionSpec> bert_options();
Blueprint bert_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
