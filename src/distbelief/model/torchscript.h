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

// Networks that Python exported with torch.jit.script or torch.jit.trace. Such a file is code: loading it
// runs its author's code. It is loaded only when a job names it.
namespace distbelief::model {

std::vector<OptionSpec> torchscript_options();
// One block with the parameter and buffer names that Python uses and the values in the file. Throws
// Error(kBadInput) for an invalid file, or one whose forward does not take exactly one tensor.
Blueprint torchscript_blueprint(const OptionMap& options, const DataShape& shape);

// Loads a file. Throws Error(kBadInput) with its name.
torch::jit::Module load_script(const std::filesystem::path& path);

// Exports a network as TorchScript for Python under the same names, in evaluation mode: a torchscript network
// as its own code with the current weights, any other as a trace of its forward. Throws Error(kBadInput) when
// the trace would hold only for the example's batch size.
struct TraceOptions {
  torch::Tensor example;  // a batch of inputs, at least two samples
  int blocks = 0;         // number of leading blocks; 0: all
  // Names of buffers to leave out; forward must not need them in evaluation.
  std::function<bool(const std::string& name)> is_left_out = [](const std::string&) { return false; };
};
torch::jit::Module to_script(Network& network, const TraceOptions& options);

// Trace options for a network that [model] names: a batch with the data's shape, without buffers that only
// training needs. For dcgan it traces the generator on noise.
TraceOptions trace_options(const ModelConfig& config, const DataShape& shape);

}  // namespace distbelief::model
