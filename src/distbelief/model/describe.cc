#include "distbelief/model/describe.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/model/registry.h"

// libtorch is a release build. The inline RecordFunction::inputs() would otherwise test a flag that only a
// debug build of libtorch sets, and throw.
#ifndef NDEBUG
#error "compile describe.cc with NDEBUG in every configuration, as CMakeLists.txt does"
#endif

namespace distbelief::model {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

// Multiply-adds per element of the result, from an operator's inputs.
struct CountedOperator {
  std::string_view name;
  std::int64_t (*per_output)(const Inputs& inputs);
};

std::int64_t last_dimension(const Inputs& inputs) { return inputs[0].toTensor().size(-1); }

std::int64_t kernel_elements(const Inputs& inputs) {
  const torch::Tensor weight = inputs[1].toTensor();
  return weight.numel() / weight.size(0);
}

constexpr CountedOperator kCounted[] = {
    {"aten::conv1d", kernel_elements},
    {"aten::conv2d", kernel_elements},
    {"aten::conv3d", kernel_elements},
    {"aten::linear", last_dimension},
    {"aten::matmul", last_dimension},
    {"aten::bmm", last_dimension},
    {"aten::mm", last_dimension},
    {"aten::addmm", [](const Inputs& inputs) { return inputs[1].toTensor().size(-1); }},
};

std::int64_t multiply_adds_per_output(const at::RecordFunction& function) {
  for (const CountedOperator& counted : kCounted) {
    if (counted.name == function.name()) return counted.per_output(function.inputs());
  }
  return 0;
}

const void* memory_of(const torch::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().data() : nullptr;
}

// "torch::nn::Conv2dImpl" -> "Conv2d"
std::string kind_of(const torch::nn::Module& module) {
  std::string type = module.name();
  if (const auto scope = type.rfind("::"); scope != std::string::npos) type.erase(0, scope + 2);
  if (const auto suffix = type.rfind("Impl"); suffix != std::string::npos && suffix + 4 == type.size())
    type.resize(suffix);
  return type;
}

// "aten::relu_" -> "relu"
std::string kind_of(std::string_view operation) {
  if (const auto scope = operation.rfind("::"); scope != std::string_view::npos)
    operation.remove_prefix(scope + 2);
  if (!operation.empty() && operation.back() == '_') operation.remove_suffix(1);
  return std::string(operation);
}

// Data of an operator between its start and its end.
struct Call : at::ObserverContext {
  std::int64_t multiply_adds_per_output = 0;
};

// Turns torch's operator callbacks into rows: one per outermost operator, or per run of them that read the
// parameters of one module. Operators inside an outermost one (linear runs addmm, for example) add their
// parameters and multiply-adds unless those are already counted further out.
class Recorder {
 public:
  explicit Recorder(const Network& network) {
    add_parameters("", network);
    for (const auto& module : network.named_modules("", /*include_self=*/false)) {
      add_parameters(module.key(), *module.value());
    }
  }

  std::unique_ptr<Call> start(const at::RecordFunction& function) {
    auto call = std::make_unique<Call>();
    if (depth_++ == 0) begin_row(function);
    for (const c10::IValue& input : function.inputs()) read(input);
    if (counted_depth_ == 0) call->multiply_adds_per_output = multiply_adds_per_output(function);
    if (call->multiply_adds_per_output > 0) ++counted_depth_;
    return call;
  }

  void end(const at::RecordFunction& function, const Call& call) {
    const torch::Tensor output = first_tensor(function.outputs());
    if (call.multiply_adds_per_output > 0) {
      --counted_depth_;
      if (output.defined()) row_.multiply_adds += call.multiply_adds_per_output * output.numel();
    }
    if (--depth_ == 0 && output.defined()) finish_row(function.name(), output);
  }

  std::vector<LayerRow> take_rows() { return std::move(rows_); }

 private:
  struct Parameter {
    std::string module;
    std::string kind;
    std::int64_t unread = 0;  // elements not yet counted in a row
  };

  void add_parameters(const std::string& name, const torch::nn::Module& module) {
    for (const torch::Tensor& parameter : module.parameters(/*recurse=*/false)) {
      parameters_.emplace(parameter.data_ptr(), Parameter{name, kind_of(module), parameter.numel()});
    }
  }

  static torch::Tensor first_tensor(const std::vector<c10::IValue>& values) {
    for (const c10::IValue& value : values) {
      if (value.isTensor()) return value.toTensor();
    }
    return {};
  }

  void begin_row(const at::RecordFunction& function) {
    row_ = {};
    row_parameters_.clear();
    input_memory_.clear();
    for (const c10::IValue& input : function.inputs()) {
      if (input.isTensor()) input_memory_.push_back(memory_of(input.toTensor()));
    }
  }

  // Looks up by address, because a layer may pass on a transposed view of its weight.
  void read(const c10::IValue& input) {
    if (!input.isTensor() || memory_of(input.toTensor()) == nullptr) return;
    const auto found = parameters_.find(input.toTensor().data_ptr());
    if (found != parameters_.end()) row_parameters_.push_back(&found->second);
  }

  void claim_parameters() {
    for (Parameter* parameter : row_parameters_) row_.parameters += std::exchange(parameter->unread, 0);
    if (row_parameters_.empty()) return;
    row_.name = row_parameters_.front()->module;
    row_.kind = row_parameters_.front()->kind;
  }

  void finish_row(std::string_view operation, const torch::Tensor& output) {
    const bool shares_memory =
        std::find(input_memory_.begin(), input_memory_.end(), memory_of(output)) != input_memory_.end();
    if (shares_memory && operation.back() != '_') return;
    row_.kind = kind_of(operation);
    claim_parameters();
    row_.output = output.sizes().vec();
    if (row_.output.size() > 1 && row_.output.front() == 1) row_.output.erase(row_.output.begin());
    if (!shares_memory) row_.activation_bytes = static_cast<std::int64_t>(output.nbytes());
    append_row();
  }

  void append_row() {
    if (!row_.name.empty() && !rows_.empty() && rows_.back().name == row_.name) {
      row_.parameters += rows_.back().parameters;
      row_.multiply_adds += rows_.back().multiply_adds;
      row_.activation_bytes += rows_.back().activation_bytes;
      rows_.pop_back();
    }
    rows_.push_back(std::move(row_));
  }

  std::map<const void*, Parameter> parameters_;
  std::vector<Parameter*> row_parameters_;  // read by the outermost operator
  std::vector<const void*> input_memory_;   // of the outermost operator
  LayerRow row_;
  std::vector<LayerRow> rows_;
  int depth_ = 0;
  int counted_depth_ = 0;
};

// torch's callbacks are plain functions without a context argument, so the recorder is a thread-local, set
// only while describe() runs on the thread.
thread_local Recorder* active_recorder = nullptr;

class RecorderScope {
 public:
  explicit RecorderScope(Recorder& recorder) {
    active_recorder = &recorder;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~RecorderScope() {
    at::removeCallback(handle_);
    active_recorder = nullptr;
  }
  RecorderScope(const RecorderScope&) = delete;
  RecorderScope& operator=(const RecorderScope&) = delete;

 private:
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
    return active_recorder->start(function);
  }
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
    DISTBELIEF_INVARIANT(context != nullptr);  // torch logs an exception of on_start and continues
    active_recorder->end(function, static_cast<const Call&>(*context));
  }

  at::CallbackHandle handle_ = 0;
};

// Evaluation mode, so that batch norm takes one sample and no statistics change. Gradients stay on, so that
// layers work in place as in training.
class EvaluationScope {
 public:
  explicit EvaluationScope(Network& network) : network_(network), was_training_(network.is_training()) {
    network_.eval();
  }
  ~EvaluationScope() { network_.train(was_training_); }
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;

 private:
  torch::AutoGradMode gradients_{true};
  Network& network_;
  bool was_training_;
};

std::vector<LayerRow> record(Network& network, const DataShape& shape) {
  Shape batch = shape.input;
  batch.insert(batch.begin(), 1);
  const torch::Tensor input =
      on_device(torch::zeros(batch, shape.tokens ? torch::kInt64 : torch::kFloat32), network.device());
  Recorder recorder(network);
  const EvaluationScope evaluation(network);
  const RecorderScope scope(recorder);
  network.forward(input);
  return recorder.take_rows();
}

}  // namespace

Description describe(Network& network, const DataShape& shape) {
  Description result;
  result.input = shape.input;
  try {
    result.layers = record(network, shape);
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::kInternal, fmt::format("torch could not run the model on one sample {}: {}",
                                                  to_string(shape.input), error.what_without_backtrace()));
  }
  for (const torch::Tensor& parameter : network.parameters()) result.parameters += parameter.numel();
  for (const LayerRow& row : result.layers) {
    result.multiply_adds += row.multiply_adds;
    result.activation_bytes += row.activation_bytes;
  }
  return result;
}

Description describe_model(const ModelConfig& config, const DataShape& shape) {
  Description result = describe(*build_model(config, shape, 0), shape);
  result.model = config.name;
  return result;
}

}  // namespace distbelief::model
