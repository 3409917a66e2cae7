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
  std::string name;  // of the module whose parameters it reads; empty when it reads none
  std::string kind;  // the type of that module (Conv2d, Linear), else torch's operator (relu, matmul)
  Shape output;
  std::int64_t parameters = 0;        // shared ones count where they are first read
  std::int64_t multiply_adds = 0;     // of convolutions and matrix products
  std::int64_t activation_bytes = 0;  // of new memory in training; 0 when it works in place
};

struct Description {
  std::string model;
  Shape input;
  std::vector<LayerRow> layers;  // in the order in which they run; views are left out
  std::int64_t parameters = 0;
  std::int64_t multiply_adds = 0;
  std::int64_t activation_bytes = 0;
};

// Runs one sample of zeros forward, evaluating, and writes down what torch executes. Leaves the network as it
// was. Other threads may compute meanwhile, with other networks.
Description describe(Network& network, const DataShape& shape);

// Builds what [model] names for data of this shape and describes it.
Description describe_model(const ModelConfig& config, const DataShape& shape);

// A table with a column per field of LayerRow and the totals in its last line.
std::string render(const Description& description);

}  // namespace distbelief::model
