#pragma once

#include <functional>

#include "distbelief/data/known_set.h"

namespace distbelief::data {

// Both parts of a set whose files need not be there: `open` is called when a sample, or how many there are,
// is first asked for, and what it throws is thrown there. Until then its spec and what was learnt are those
// of `known`.
DataSet deferred_data_set(const KnownSet& known, std::function<DataSet()> open);

}  // namespace distbelief::data
