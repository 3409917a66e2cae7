#pragma once

#include <cstdint>

#include "distbelief/base/array.h"

namespace distbelief::model {

// What a model has to fit, taken from the data.
struct DataShape {
  bool tokens = false;       // int64 tokens [length] rather than float images [channels, height, width]
  Shape input;               // of one sample
  std::int64_t classes = 0;  // or the vocabulary
};

}  // namespace distbelief::model
