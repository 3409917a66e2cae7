#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/base/array.h"
#include "distbelief/base/config.h"
#include "distbelief/model/data_shape.h"

namespace distbelief::model {

class Network;

// One layer of the forward pass, for one sample.
struct LayerRow {
  std::string name;  // the module whose parameters it reads; empty: reads none
  std::string kind;  // the type of that module (Conv2d, Linear), else torch's operator (relu, matmul)
  Shape output;
  std::int64_t parameters = 0;        // shared parameters count at their first reader
  std::int64_t multiply_adds = 0;     // in convolutions and matrix products
  std::int64_t activation_bytes = 0;  // new memory in training; 0 for in-place layers
};

struct Description {
  std::string model;
  Shape input;
  std::vector<LayerRow> layers;  // in execution order, without views
  std::int64_t parameters = 0;
  std::int64_t multiply_adds = 0;
  std::int64_t activation_bytes = 0;
};

// Evaluates one sample of zeros and records the operators that torch executes. Leaves the network unchanged.
// Other threads may compute with other networks meanwhile.
Description describe(Network& network, const DataShape& shape);

// Builds the network that [model] names for data of this shape and describes it.
Description describe_model(const ModelConfig& config, const DataShape& shape);

// A table with a column per field of LayerRow and the totals in the last line.
std::string render(const Description& description);

}  // namespace distbelief::model
