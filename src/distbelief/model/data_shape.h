#pragma once

#include <cstdint>

#include "distbelief/base/array.h"

namespace distbelief::model {

// What a model has to fit, taken from the data.
struct DataShape {
  // int64 tokens [length] rather than floats: images [channels, height, width] or features [count]
  bool tokens = false;
  Shape input;                    // of one sample
  std::int64_t classes = 0;       // or the vocabulary; 0: targets are values
  std::int64_t input_tokens = 0;  // what stands at nodes of trees is below this; 0: not known
  std::int64_t values = 0;        // to predict for each sample, when there are no classes

  std::int64_t outputs() const { return classes > 0 ? classes : values; }
};

}  // namespace distbelief::model
