#include "distbelief/compute/replica.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "distbelief/base/error.h"
#include "distbelief/model/placed_linear.h"

namespace distbelief::compute {
namespace {

// A tensor registered under several names counts once, under the first name.
using Named = std::vector<std::pair<std::string, torch::Tensor>>;

Named trainable(const torch::nn::Module& module) {
  Named found;
  std::unordered_set<const c10::TensorImpl*> known;
  for (const auto& item : module.named_parameters())
    if (item.value().requires_grad() && known.insert(item.value().unsafeGetTensorImpl()).second)
      found.emplace_back(item.key(), item.value());
  return found;
}

// The trainable parameters that a layout names, in its order.
Named laid_out(const torch::nn::Module& module, const Layout& layout) {
  Named found;
  for (auto& [name, tensor] : trainable(module))
    if (found.size() < layout.entries().size() && layout.entries()[found.size()].name == name)
      found.emplace_back(name, tensor);
  DISTBELIEF_INVARIANT(found.size() == layout.entries().size());
  return found;
}

}  // namespace

std::vector<Layout::Parameter> trainable_parameters(const torch::nn::Module& module) {
  std::vector<Layout::Parameter> parameters;
  for (const auto& [name, tensor] : trainable(module)) {
    if (tensor.scalar_type() != torch::kFloat32 || !tensor.device().is_cpu())
      throw Error(ErrorCode::kBadInput,
                  fmt::format("parameter '{}' is {} on {}; this version trains float32 on the CPU", name,
                              torch::toString(tensor.scalar_type()), tensor.device().str()));
    parameters.push_back({name, tensor.sizes().vec()});
  }
  return parameters;
}

void copy_parameters(const torch::nn::Module& module, const Layout& layout, float* arena) {
  const Named parameters = laid_out(module, layout);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Entry& entry = layout.entries()[i];
    const torch::Tensor values = parameters[i].second.detach().contiguous();
    std::memcpy(arena + entry.offset, values.data_ptr<float>(), entry.count * sizeof(float));
  }
}

void move_parameters(const torch::nn::Module& part, const torch::nn::Module& whole, const Layout& layout,
                     const ArenaPlace& place) {
  const torch::NoGradGuard no_grad;
  std::unordered_set<const c10::TensorImpl*> moved;
  for (const torch::Tensor& tensor : part.parameters()) moved.insert(tensor.unsafeGetTensorImpl());
  for (auto& [name, tensor] : trainable(whole)) {
    if (!moved.contains(tensor.unsafeGetTensorImpl())) continue;
    const auto& entries = layout.entries();
    const auto entry = std::find_if(entries.begin(), entries.end(),
                                    [&name = name](const Entry& each) { return each.name == name; });
    if (entry == entries.end()) continue;
    const torch::Tensor values = tensor.detach().contiguous();
    for (const Span& span : place.owned) {
      const std::size_t begin = std::max(span.begin, entry->offset);
      const std::size_t end = std::min(span.end, entry->offset + entry->count);
      if (begin < end)
        std::memcpy(place.arena + begin, values.data_ptr<float>() + (begin - entry->offset),
                    (end - begin) * sizeof(float));
    }
    tensor.set_data(torch::from_blob(place.arena + entry->offset, entry->shape, torch::kFloat32));
  }
}

// Called when autograd has put this backward's final gradient into parameter.grad. A graph that is still
// alive keeps the accumulators and their hooks beyond the replica, so they share what they need.
class Replica::Hook final : public torch::autograd::FunctionPostHook {
 public:
  Hook(std::shared_ptr<const Route> route, torch::Tensor tensor, int parameter)
      : route_(std::move(route)),
        tensor_(std::move(tensor)),
        parameter_(parameter) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    torch::Tensor& gradient = tensor_.mutable_grad();
    if (route_->sink == nullptr) return outputs;
    if (float* const placed = route_->placed[std::size_t(parameter_)]) {
      add_other_uses(placed, gradient);
      (*route_->sink)(parameter_, placed);
    } else if (gradient.defined()) {
      const torch::Tensor values = gradient.contiguous();
      (*route_->sink)(parameter_, values.data_ptr<float>());
    }
    gradient.reset();  // frees the memory for the next layer's gradient while it is in the cache
    return outputs;
  }

 private:
  void add_other_uses(float* placed, const torch::Tensor& gradient) const {
    if (gradient.defined()) torch::from_blob(placed, tensor_.sizes(), torch::kFloat32).add_(gradient);
  }

  std::shared_ptr<const Route> route_;
  torch::Tensor tensor_;
  int parameter_;
};

Replica::Replica(std::shared_ptr<torch::nn::Module> module, const Layout& layout, float* arena)
    : module_(std::move(module)),
      route_(std::make_shared<Route>()) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : laid_out(*module_, layout)) {
    const Entry& entry = layout.entries()[parameters_.size()];
    if (arena != nullptr) {
      tensor.set_data(torch::from_blob(arena + entry.offset, entry.shape, torch::kFloat32));
      places_.push_back(arena + entry.offset);
    }
    parameters_.push_back(tensor);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    numbers_[parameters_[i].unsafeGetTensorImpl()] = int(i);
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameters_[i]));
    accumulators_.back()->add_post_hook(std::make_unique<Hook>(route_, parameters_[i], int(i)));
  }
}

Replica::~Replica() = default;

int Replica::moved_away() const {
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (parameters_[i].numel() > 0 && parameters_[i].data_ptr() != places_[i]) return int(i);
  return -1;
}

// The gradient places of the running backward.
class Replica::Places final : public model::GradientPlaces {
 public:
  Places(Replica& replica, const GradientPlace& place) : replica_(replica), place_(place) {}

  float* take(const torch::Tensor& parameter) override {
    const auto found = replica_.numbers_.find(parameter.unsafeGetTensorImpl());
    if (!place_ || found == replica_.numbers_.end()) return nullptr;
    float*& placed = replica_.route_->placed[std::size_t(found->second)];
    if (placed != nullptr) return nullptr;  // a second use: autograd adds it to the first
    return placed = place_(found->second);
  }

 private:
  Replica& replica_;
  const GradientPlace& place_;
};

void Replica::backward(const torch::Tensor& output, const torch::Tensor& gradient, const GradientSink& sink,
                       const GradientPlace& place) {
  // Drops gradients that another backward left, for example that of a network that contains this one.
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  route_->sink = &sink;
  route_->placed.assign(parameters_.size(), nullptr);
  Places places(*this, place);
  const model::GradientPlacesScope scope(&places);
  try {
    output.backward(gradient);
  } catch (...) {
    route_->sink = nullptr;
    throw;
  }
  route_->sink = nullptr;
}

}  // namespace distbelief::compute
