#include "distbelief/model/torchscript.h"

#include <fmt/format.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/model/random.h"
#include "distbelief/model/script_block.h"

namespace distbelief::model {
namespace {

bool draws(const torch::jit::Block& block) {
  return std::any_of(block.nodes().begin(), block.nodes().end(), [](const torch::jit::Node* node) {
    return node->isNondeterministic() ||
           std::any_of(node->blocks().begin(), node->blocks().end(),
                       [](const torch::jit::Block* inner) { return draws(*inner); });
  });
}

bool draws_randomness(const torch::jit::Module& script) {
  const auto graph = script.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  return draws(*graph->block());
}

// Registers tensors under their dotted names, in modules made for them.
void hold_tensor(torch::nn::Module& root, const std::string& name, torch::Tensor tensor, bool trained) {
  torch::nn::Module* place = &root;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = name.find('.', begin)) != std::string::npos; begin = dot + 1) {
    const std::string part = name.substr(begin, dot - begin);
    const auto children = place->named_children();
    const auto* found = children.find(part);
    place = found ? found->get() : place->register_module(part, std::make_shared<torch::nn::Module>()).get();
  }
  if (trained)
    place->register_parameter(name.substr(begin), tensor, tensor.requires_grad());
  else
    place->register_buffer(name.substr(begin), tensor);
}

void require_forward(const torch::jit::Module& script, const std::string& path) {
  const auto method = script.find_method("forward");
  if (!method)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} has no forward method; export a torch.nn.Module with torch.jit.script", path));
  const auto& arguments = method->function().getSchema().arguments();
  std::size_t wanted = 0;
  for (const auto& argument : arguments) wanted += argument.default_value() ? 0 : 1;
  if (wanted == 2 && !script.parameters().size())
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} has no parameters to train; was it frozen? Export it before torch.jit.freeze", path));
  if (wanted == 2) return;  // self and the batch
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("forward of {} takes {} arguments; wanted is one, the batch of inputs", path, wanted - 1));
}

}  // namespace

ScriptBlock::ScriptBlock(torch::jit::Module script)
    : script_(std::move(script)),
      draws_(draws_randomness(script_) ? Draws::kYes : Draws::kNever) {
  mode_ = register_module("_torchscript", std::make_shared<torch::nn::Module>());
  for (const auto& item : script_.named_parameters()) hold_tensor(*this, item.name, item.value, true);
  for (const auto& item : script_.named_buffers()) hold_tensor(*this, item.name, item.value, false);
  script_.train(true);
}

// Runs without the executor's optimisations: they start after some calls, so a process that has run longer
// would compute other bits than a new one.
torch::Tensor ScriptBlock::run(torch::Tensor input) {
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);
  const c10::IValue output = script_.forward({std::move(input)});
  if (!output.isTensor())
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("forward of the TorchScript network gives a {}; wanted is a tensor", output.tagKind()));
  return output.toTensor();
}

torch::Tensor ScriptBlock::forward(torch::Tensor input) {
  if (script_.is_training() != mode_->is_training()) script_.train(mode_->is_training());
  if (!mode_->is_training()) return run(std::move(input));
  return with_lane_seed(draws_, [&] { return run(std::move(input)); });
}

std::vector<OptionSpec> torchscript_options() {
  return {{"file", std::string(), "the exported network (.pt); it is code, and is run"}};
}

torch::jit::Module load_script(const std::filesystem::path& path) {
  try {
    torch::jit::Module script = torch::jit::load(path.string(), torch::kCPU);
    require_forward(script, path.string());
    return script;
  } catch (const c10::Error& error) {
    const std::string reason = error.what_without_backtrace();
    throw Error(ErrorCode::kBadInput,
                fmt::format("cannot load {} as TorchScript: {}; export it in Python with "
                            "torch.jit.script(net).save(\"net.pt\")",
                            path.string(), reason.substr(0, reason.find('\n'))));
  }
}

Blueprint torchscript_blueprint(const OptionMap& options, const DataShape&) {
  const std::string& file = option<std::string>(options, "file");
  if (file.empty())
    throw Error(ErrorCode::kBadInput,
                "model 'torchscript': option 'file' names the exported network: [model] file = \"net.pt\"",
                {.key = "model.file"});
  return {{"", [file](const BlockSite&) { return std::make_shared<ScriptBlock>(load_script(file)); }}};
}

}  // namespace distbelief::model
