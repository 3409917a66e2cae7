#pragma once

#include <functional>

#include "distbelief/data/known_set.h"

namespace distbelief::data {

// Both parts of a set whose files may be absent. The first call that needs a sample or the number of samples
// calls `open`, and its exceptions pass through. The specification and the fitted preprocessing come from
// `known`.
DataSet deferred_data_set(const KnownSet& known, std::function<DataSet()> open);

}  // namespace distbelief::data
