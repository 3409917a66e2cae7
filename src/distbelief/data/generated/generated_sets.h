#pragma once

#include <vector>

#include "distbelief/data/registry.h"

namespace distbelief::data {

// The data sets that need no files: generated samples and first states of environments.
std::vector<DataSetEntry> generated_entries();

}  // namespace distbelief::data
