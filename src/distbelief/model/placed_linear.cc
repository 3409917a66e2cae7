#include "distbelief/model/placed_linear.h"

#include <utility>

#include "distbelief/model/device.h"
#include "distbelief/model/watched.h"

namespace distbelief::model {
namespace {

thread_local GradientPlaces* current_places = nullptr;

// Computes the same products as torch's own backward, so the bits are equal too.
torch::Tensor weight_gradient(const torch::Tensor& gradient, const torch::Tensor& input,
                              const torch::Tensor& weight) {
  const bool is_final = !torch::GradMode::is_enabled();  // no gradient of the gradient is wanted
  float* const place = is_final && current_places ? current_places->take(weight) : nullptr;
  if (place == nullptr) return gradient.t().mm(input);
  torch::Tensor target = borrow_host(place, weight.sizes().vec(), torch::kFloat);
  torch::mm_out(target, gradient.t(), input);
  return {};
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input,
                               const torch::Tensor& weight, const torch::Tensor& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["is_inner"] = input.requires_grad();
    return torch::linear(input, weight, bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::Tensor& gradient = gradients[0];
    const torch::autograd::variable_list saved = context->get_saved_variables();
    torch::Tensor of_input;
    if (context->saved_data["is_inner"].toBool()) of_input = gradient.mm(saved[1]);
    // Autograd sums the bias gradient over samples.
    return {of_input, weight_gradient(gradient, saved[0], saved[1]), gradient};
  }
};

}  // namespace

GradientPlacesScope::GradientPlacesScope(GradientPlaces* places)
    : before_(std::exchange(current_places, places)) {}

GradientPlacesScope::~GradientPlacesScope() { current_places = before_; }

torch::Tensor placed_linear(const torch::Tensor& input, const torch::Tensor& weight,
                            const torch::Tensor& bias) {
  const bool is_trained = torch::GradMode::is_enabled() && weight.requires_grad();
  const bool is_plain = input.dim() == 2 && bias.defined() && input.device().is_cpu() &&
                        input.scalar_type() == torch::kFloat && weight.scalar_type() == torch::kFloat;
  if (!is_trained || !is_plain || is_watched()) return torch::linear(input, weight, bias);
  return LinearFunction::apply(input, weight, bias);
}

}  // namespace distbelief::model
