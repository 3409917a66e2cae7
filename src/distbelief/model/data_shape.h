#pragma once

#include <cstdint>

#include "distbelief/base/array.h"

namespace distbelief::model {

// The shape of the data, which a model must fit.
struct DataShape {
  // int64 tokens [length] rather than floats: images [channels, height, width] or features [count]
  bool tokens = false;
  Shape input;                    // of one sample
  std::int64_t classes = 0;       // or size of the vocabulary; 0: targets are values
  std::int64_t input_tokens = 0;  // upper bound of the tokens at tree nodes; 0: unknown
  std::int64_t values = 0;        // values to predict per sample, when there are no classes

  std::int64_t outputs() const { return classes > 0 ? classes : values; }
};

}  // namespace distbelief::model
