#include "distbelief/model/attention.h"

#include <cmath>
#include <vector>

#include "distbelief/model/watched.h"

namespace distbelief::model {
namespace {

double scale_of(std::int64_t head_width) { return std::pow(static_cast<double>(head_width), -0.5); }

// Views [length, parts * width] of one sample as the part's [heads, length, head], without a copy.
torch::Tensor heads_of(const torch::Tensor& sample, std::int64_t part, std::int64_t parts,
                       std::int64_t heads) {
  const std::int64_t width = sample.size(1) / parts;
  return sample.narrow(1, part * width, width).view({sample.size(0), heads, width / heads}).transpose(0, 1);
}

// One sample's queries, keys and values, or their gradients.
struct Heads {
  torch::Tensor queries, keys, values;
  Heads(const torch::Tensor& sample, std::int64_t heads)
      : queries(heads_of(sample, 0, 3, heads)),
        keys(heads_of(sample, 1, 3, heads)),
        values(heads_of(sample, 2, 3, heads)) {}
};

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  // `bias` is optional because autograd takes no undefined tensor.
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& qkv,
                               std::int64_t heads, const c10::optional<torch::Tensor>& bias) {
    const std::int64_t samples = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3;
    const double scale = scale_of(width / heads);
    const auto options = qkv.options().requires_grad(false);
    torch::Tensor output = torch::empty({samples, length, width}, options);
    torch::Tensor weights = torch::empty({samples, heads, length, length}, options);
    torch::Tensor scores = torch::empty({heads, length, length}, options);
    for (std::int64_t i = 0; i < samples; ++i) {
      const Heads sample(qkv[i], heads);
      const torch::Tensor keys = sample.keys.transpose(1, 2);
      if (bias)
        torch::baddbmm_out(scores, *bias, sample.queries, keys, /*beta=*/1, scale);
      else
        torch::bmm_out(scores, sample.queries, keys).mul_(scale);
      torch::Tensor chosen = weights[i];
      torch::_softmax_out(chosen, scores, -1, /*half_to_float=*/false);
      torch::Tensor attended = heads_of(output[i], 0, 1, heads);
      torch::bmm_out(attended, chosen, sample.values);
    }
    context->save_for_backward({qkv, weights});
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const torch::Tensor qkv = saved[0].detach(), weights = saved[1].detach();
    const torch::Tensor gradient = gradients[0].contiguous();
    const std::int64_t heads = weights.size(1);
    const double scale = scale_of(qkv.size(2) / 3 / heads);
    torch::Tensor of_qkv = torch::empty_like(qkv);
    torch::Tensor of_weights = torch::empty_like(weights[0]), of_scores = torch::empty_like(of_weights);
    for (std::int64_t i = 0; i < qkv.size(0); ++i) {
      const Heads sample(qkv[i], heads);
      Heads result(of_qkv[i], heads);
      const torch::Tensor chosen = weights[i], of_attended = heads_of(gradient[i], 0, 1, heads);
      torch::bmm_out(result.values, chosen.transpose(1, 2), of_attended);
      torch::bmm_out(of_weights, of_attended, sample.values.transpose(1, 2));
      torch::_softmax_backward_data_out(of_scores, of_weights, chosen, -1, qkv.scalar_type()).mul_(scale);
      torch::bmm_out(result.queries, of_scores, sample.keys);
      torch::bmm_out(result.keys, of_scores.transpose(1, 2), sample.queries);
    }
    return {of_qkv, {}, {}};
  }
};

torch::Tensor plain_attention(const torch::Tensor& qkv, std::int64_t heads, const torch::Tensor& bias) {
  // Does not use the number of samples, so that a trace holds for any.
  const std::int64_t length = qkv.size(1), width = qkv.size(2) / 3;
  std::vector<torch::Tensor> parts = qkv.split(width, 2);
  for (torch::Tensor& part : parts) part = part.view({-1, length, heads, width / heads}).transpose(1, 2);
  torch::Tensor scores = torch::matmul(parts[0], parts[1].transpose(-2, -1)) * scale_of(width / heads);
  if (bias.defined()) scores = scores + bias;
  return torch::matmul(scores.softmax(-1), parts[2]).transpose(1, 2).reshape({-1, length, width});
}

}  // namespace

torch::Tensor attention(const torch::Tensor& qkv, std::int64_t heads, const torch::Tensor& bias) {
  if (is_watched()) return plain_attention(qkv, heads, bias);
  return AttentionFunction::apply(qkv.contiguous(), heads,
                                  bias.defined() ? c10::make_optional(bias) : c10::nullopt);
}

}  // namespace distbelief::model
