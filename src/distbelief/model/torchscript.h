#pragma once

#include <torch/script.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/base/options.h"
#include "distbelief/model/data_shape.h"
#include "distbelief/model/network.h"

// Networks that Python has exported with torch.jit.script or torch.jit.trace. Such a file is code: whoever
// loads it runs what its author wrote. It is loaded only when a job names it.
namespace distbelief::model {

std::vector<OptionSpec> torchscript_options();
// One block, whose parameters and buffers have the names that they have in Python, and the values that they
// have in the file. Throws Error(kBadInput) when the file is none, or its forward does not take one tensor.
Blueprint torchscript_blueprint(const OptionMap& options, const DataShape& shape);

// Loads a file. Throws Error(kBadInput) with its name.
torch::jit::Module load_script(const std::filesystem::path& path);

// A network as TorchScript that Python loads: of a torchscript network its own code with the present weights,
// of any other a trace of its forward, in evaluation mode, under the same names. Throws Error(kBadInput) when
// a trace would be right for batches of the example's size alone.
struct TraceOptions {
  torch::Tensor example;  // a batch of inputs, of two samples at least
  int blocks = 0;         // the first so many; 0: all
  // Buffers to leave out, by their names; forward does without them when evaluating.
  std::function<bool(const std::string& name)> is_left_out = [](const std::string&) { return false; };
};
torch::jit::Module to_script(Network& network, const TraceOptions& options);

// How a network that [model] names is traced: a batch as the data gives it, without what only training needs.
// Of dcgan it is the generator, from noise.
TraceOptions trace_options(const ModelConfig& config, const DataShape& shape);

}  // namespace distbelief::model
