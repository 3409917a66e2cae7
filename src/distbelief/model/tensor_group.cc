#include "distbelief/model/tensor_group.h"

namespace distbelief::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Groups outlive the graphs that are built with them.
std::int64_t handle_of(TensorGroup& group) { return reinterpret_cast<std::int64_t>(&group); }
TensorGroup& group_of(AutogradContext* context) {
  return *reinterpret_cast<TensorGroup*>(context->saved_data["group"].toInt());
}

struct Enter : Function<Enter> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input, std::int64_t group) {
    context->saved_data["group"] = group;
    return input.view_as(input);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {group_of(context).sum(gradients[0]), torch::Tensor()};
  }
};

struct Leave : Function<Leave> {
  static torch::Tensor forward(AutogradContext*, const torch::Tensor& input, std::int64_t group) {
    return reinterpret_cast<TensorGroup*>(group)->sum(input);
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0], torch::Tensor()};
  }
};

struct Gather : Function<Gather> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input, std::int64_t group,
                               std::int64_t dimension, std::int64_t whole, bool partial) {
    TensorGroup& parts = *reinterpret_cast<TensorGroup*>(group);
    const SliceRange range = share_of(whole, parts.part(), parts.parts());
    context->saved_data["group"] = group;
    context->saved_data["place"] =
        std::vector<std::int64_t>{dimension, range.begin, range.count, std::int64_t(partial)};
    std::vector<std::int64_t> shape = input.sizes().vec();
    shape[std::size_t(dimension)] = whole;
    torch::Tensor padded = torch::zeros(shape, input.options());
    padded.narrow(dimension, range.begin, range.count).copy_(input);
    return parts.sum(padded);  // each element is nonzero in one part only
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto place = context->saved_data["place"].toIntVector();
    const torch::Tensor whole = place[3] != 0 ? group_of(context).sum(gradients[0]) : gradients[0];
    return {whole.narrow(place[0], place[1], place[2]).contiguous(), torch::Tensor(), torch::Tensor(),
            torch::Tensor(), torch::Tensor()};
  }
};

struct ColumnLinear : Function<ColumnLinear> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input,
                               const torch::Tensor& weight, const c10::optional<torch::Tensor>& bias,
                               std::int64_t group) {
    context->save_for_backward({input, weight});
    context->saved_data["group"] = group;
    context->saved_data["input"] = input.requires_grad();
    context->saved_data["bias"] = bias.has_value();
    return torch::linear(input, weight, bias);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor& output = gradients[0];
    const bool wants_input = context->saved_data["input"].toBool();
    torch::Tensor input_gradient;
    if (wants_input) {
      input_gradient = output.matmul(saved[1]);
      group_of(context).start_sum(input_gradient);
    }
    const torch::Tensor rows = output.reshape({-1, output.size(-1)});
    const torch::Tensor weight = rows.t().mm(saved[0].reshape({-1, saved[0].size(-1)}));
    const torch::Tensor bias = context->saved_data["bias"].toBool() ? rows.sum(0) : torch::Tensor();
    if (wants_input) input_gradient = group_of(context).finish_sum();
    return {input_gradient, weight, bias, torch::Tensor()};
  }
};

// Over the logits z of all parts: m = max z, s = sum exp(z - m).
struct SlicedCrossEntropy : Function<SlicedCrossEntropy> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits,
                               const torch::Tensor& target, std::int64_t group, std::int64_t begin,
                               std::int64_t classes, double smoothing) {
    TensorGroup& parts = *reinterpret_cast<TensorGroup*>(group);
    const std::int64_t samples = logits.size(0), count = logits.size(1);
    torch::Tensor largest = torch::zeros({parts.parts(), samples}, logits.options());
    largest[parts.part()].copy_(logits.amax(1));
    const torch::Tensor most = parts.sum(largest).amax(0);
    torch::Tensor exponentials = (logits - most.unsqueeze(1)).exp_();
    const torch::Tensor local = target - begin;
    const torch::Tensor here = local.ge(0).logical_and_(local.lt(count));
    const torch::Tensor index = local.clamp(0, count - 1).unsqueeze(1);
    const torch::Tensor wanted = logits.gather(1, index).squeeze(1) * here;
    const torch::Tensor sums =
        parts.sum(torch::stack({exponentials.sum(1), wanted, smoothing > 0 ? logits.sum(1) : wanted}));
    context->save_for_backward({exponentials.div_(sums[0].unsqueeze(1)), index, here});
    context->saved_data["smoothing"] = smoothing;
    context->saved_data["classes"] = classes;
    const torch::Tensor log_sum = sums[0].log() + most;
    torch::Tensor loss = (log_sum - sums[1]).sum() * (1.0 - smoothing);
    if (smoothing > 0) loss = loss + (log_sum - sums[2] / double(classes)).sum() * smoothing;
    return loss;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const double smoothing = context->saved_data["smoothing"].toDouble();
    torch::Tensor gradient = saved[0].clone();
    gradient.scatter_add_(1, saved[1], saved[2].unsqueeze(1).to(gradient.scalar_type()) * (smoothing - 1.0));
    if (smoothing > 0) gradient.sub_(smoothing / double(context->saved_data["classes"].toInt()));
    return {gradient.mul_(gradients[0]),
            torch::Tensor(),
            torch::Tensor(),
            torch::Tensor(),
            torch::Tensor(),
            torch::Tensor()};
  }
};

}  // namespace

torch::Tensor enter(TensorGroup& group, const torch::Tensor& input) {
  return Enter::apply(input, handle_of(group));
}

torch::Tensor leave(TensorGroup& group, const torch::Tensor& input) {
  return Leave::apply(input, handle_of(group));
}

torch::Tensor gather(TensorGroup& group, const torch::Tensor& input, int dimension, std::int64_t whole,
                     UsedBy used_by) {
  return Gather::apply(input, handle_of(group), std::int64_t(dimension), whole,
                       used_by == UsedBy::kSlicedLayers);
}

torch::Tensor column_linear(TensorGroup& group, const torch::Tensor& input, const torch::Tensor& weight,
                            const torch::Tensor& bias) {
  const auto given = bias.defined() ? c10::optional<torch::Tensor>(bias) : c10::nullopt;
  return ColumnLinear::apply(input, weight, given, handle_of(group));
}

torch::Tensor row_linear(TensorGroup& group, const torch::Tensor& input, const torch::Tensor& weight,
                         const torch::Tensor& bias) {
  const torch::Tensor whole = leave(group, torch::linear(input, weight));
  return bias.defined() ? whole + bias : whole;
}

torch::Tensor sliced_embedding(TensorGroup& group, const torch::Tensor& ids, const torch::Tensor& table,
                               SliceRange rows) {
  const torch::Tensor local = ids - rows.begin;
  const torch::Tensor here = local.ge(0).logical_and_(local.lt(rows.count));
  const torch::Tensor found = torch::embedding(table, local.clamp(0, rows.count - 1));
  return leave(group, found * here.unsqueeze(-1));
}

torch::Tensor sliced_cross_entropy(TensorGroup& group, const torch::Tensor& logits,
                                   const torch::Tensor& target, const Slice& classes,
                                   double label_smoothing) {
  return SlicedCrossEntropy::apply(logits, target, handle_of(group), classes.begin, classes.whole,
                                   label_smoothing);
}

}  // namespace distbelief::model
