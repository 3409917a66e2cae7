#pragma once

#include <torch/script.h>

#include <filesystem>
#include <vector>

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
// of any other a trace of its forward, in evaluation mode, under the same names. `example` is a batch of
// inputs, of two samples at least. Throws Error(kBadInput) when a trace would be right for batches of that
// size alone.
torch::jit::Module to_script(Network& network, const torch::Tensor& example);

}  // namespace distbelief::model
