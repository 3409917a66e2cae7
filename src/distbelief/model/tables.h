#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

// Networks whose inputs are table rows on parameter servers. These are the dense parts; the tasks of the same
// names choose the rows (tasks/click_through.cc, tasks/skip_gram.cc).
namespace distbelief::model {

// Fully connected layers on the rows of a sample's ids, one row per field.
std::vector<OptionSpec> click_through_options();
Blueprint click_through_blueprint(const OptionMap& options, const DataShape& shape);

// Skip-gram (Mikolov et al., "Distributed representations of words and phrases", 2013): the rows are learnt;
// the network only adds a bias to the score of a pair of rows.
std::vector<OptionSpec> word2vec_options();
Blueprint word2vec_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
