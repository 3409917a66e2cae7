#pragma once

#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

// Networks whose inputs are rows of tables, which lie on parameter servers. What is here is the dense part;
// the tasks of the same names say which rows (tasks/click_through.cc, tasks/skip_gram.cc).
namespace distbelief::model {

// Fully connected layers on the rows of a sample's ids, one row for each field.
std::vector<OptionSpec> click_through_options();
Blueprint click_through_blueprint(const OptionMap& options, const DataShape& shape);

// Skip-gram (Mikolov et al., "Distributed representations of words and phrases", 2013): what is learnt is in
// the rows; the network adds one number to how well two of them go together.
std::vector<OptionSpec> word2vec_options();
Blueprint word2vec_blueprint(const OptionMap& options, const DataShape& shape);

}  // namespace distbelief::model
