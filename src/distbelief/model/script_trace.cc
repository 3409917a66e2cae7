#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <map>

#include "distbelief/base/error.h"
#include "distbelief/model/dcgan.h"
#include "distbelief/model/registry.h"
#include "distbelief/model/script_block.h"
#include "distbelief/model/torchscript.h"

namespace distbelief::model {
namespace {

using torch::jit::Module;

// A tree of TorchScript modules with the network's names; shares its tensors.
class ScriptTree {
 public:
  ScriptTree(const torch::nn::Module& network, const TraceOptions& options) {
    modules_.emplace("", make("Network"));
    for (const auto& item : network.named_parameters()) {
      auto [place, name] = place_of(item.key());
      place.register_parameter(name, item.value(), false);
    }
    for (const auto& item : network.named_buffers()) {
      if (options.is_left_out(item.key())) continue;
      auto [place, name] = place_of(item.key());
      place.register_buffer(name, item.value());
    }
  }
  Module& root() { return modules_.at(""); }

 private:
  Module make(const std::string& name) {
    return Module(c10::QualifiedName("__torch__." + name), unit_, /*shouldMangle=*/true);
  }

  std::pair<Module, std::string> place_of(const std::string& path) {
    const std::size_t dot = path.rfind('.');
    if (dot == std::string::npos) return {root(), path};
    return {module_at(path.substr(0, dot)), path.substr(dot + 1)};
  }

  Module module_at(const std::string& path) {
    if (const auto found = modules_.find(path); found != modules_.end()) return found->second;
    auto [parent, name] = place_of(path);
    const Module made = make("Part");
    parent.register_module(name, made);
    return modules_.emplace(path, made).first->second;
  }

  std::shared_ptr<torch::jit::CompilationUnit> unit_ = std::make_shared<torch::jit::CompilationUnit>();
  std::map<std::string, Module> modules_;
};

torch::Tensor forward_of(Network& network, const TraceOptions& options, torch::Tensor batch) {
  if (options.blocks == 0) return network.forward(std::move(batch));
  for (int block = 0; block < options.blocks; ++block) batch = network.forward(block, std::move(batch));
  return batch;
}

void add_traced_forward(Module& module, Network& network, const TraceOptions& options) {
  const auto traced = torch::jit::tracer::trace(
      {options.example},
      [&](torch::jit::Stack inputs) {
        return torch::jit::Stack{forward_of(network, options, inputs.at(0).toTensor())};
      },
      [](const torch::autograd::Variable&) { return std::string(); }, /*strict=*/true,
      /*force_outplace=*/false, &module);
  const auto function = module._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*module.type()->name(), "forward"), traced.first->graph);
  module.type()->addMethod(function);
}

// A trace stores numbers that the code computed from the batch size as constants, so test it with another
// size.
void require_any_batch(Module& module, Network& network, const TraceOptions& options) {
  const torch::Tensor fewer = options.example.narrow(0, 0, 1).contiguous();
  const torch::Tensor wanted = forward_of(network, options, fewer);
  torch::Tensor found;
  try {
    found = module.forward({fewer}).toTensor();
  } catch (const std::exception&) {
  }
  if (found.defined() && found.sizes() == wanted.sizes() && torch::allclose(found, wanted, 1e-4, 1e-5))
    return;
  throw Error(ErrorCode::kBadInput,
              "this network's code depends on the size of the batch, so a trace of it would be wrong for "
              "others; export it as safetensors or state_dict and load that into the network in Python");
}

}  // namespace

Module to_script(Network& network, const TraceOptions& options) {
  const torch::NoGradGuard no_grad;
  if (network.range().size() == 1)
    if (const auto* block = dynamic_cast<const ScriptBlock*>(&network.block(0))) {
      Module script = block->script();
      script.eval();
      return script;
    }
  network.eval();
  ScriptTree tree(network, options);
  try {
    add_traced_forward(tree.root(), network, options);
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("torch cannot trace this network: {}; export it as safetensors "
                            "or state_dict",
                            error.what_without_backtrace()));
  }
  require_any_batch(tree.root(), network, options);
  return tree.root();
}

TraceOptions trace_options(const ModelConfig& config, const DataShape& shape) {
  TraceOptions options;
  options.is_left_out = [entry = find_model(config.name)](const std::string& name) {
    return is_training_state(entry, name);
  };
  if (config.name == "dcgan") {
    options.example = dcgan_noise(resolved_options(config), 2);
    options.blocks = kGeneratorBlock + 1;
    return options;
  }
  Shape batch = shape.input;
  batch.insert(batch.begin(), 2);
  options.example = shape.tokens ? torch::zeros(batch, torch::kInt64) : torch::rand(batch);
  return options;
}

}  // namespace distbelief::model
