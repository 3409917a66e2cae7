#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "distbelief/base/error.h"
#include "distbelief/model/random.h"
#include "distbelief/tasks/task_kinds.h"

namespace distbelief::tasks {
namespace {

constexpr double kMaskedShare = 0.15;  // of a sample's tokens
constexpr double kHidden = 0.8;        // of those show the mask ...
constexpr double kReplaced = 0.1;      // ... another token; the rest stay

torch::Tensor draw(const torch::Tensor& like) {
  torch::Tensor values = torch::empty(like.sizes(), torch::kFloat32);
  if (const auto generator = model::current_generator()) return values.uniform_(0, 1, *generator);
  return values.uniform_(0, 1);
}

// Masked language modelling (Devlin et al., "BERT", 2018). Masks the same number of tokens in every sample,
// so that a lane knows the number of items of the other lanes. When samples are padded, masks the same share
// of each sample's own tokens; a lane then knows the average of the other lanes. The mask token follows the
// vocabulary.
class MaskedTokens final : public Task {
 public:
  explicit MaskedTokens(const TaskSite& site)
      : vocabulary_(site.spec.classes),
        target_share_(site.spec.target_share),
        masked_(std::max<std::int64_t>(
            1, std::llround(kMaskedShare * double(element_count(site.spec.input_shape))))),
        group_(site.group) {}

  std::int64_t items_per_sample() const override { return masked_; }

  TensorBatch prepared(TensorBatch batch) const override {
    const torch::Tensor tokens = batch.input;
    const torch::Tensor chosen = choose(tokens, batch.target);
    const torch::Tensor fate = draw(tokens);
    const torch::Tensor others =
        (draw(tokens) * double(vocabulary_)).to(torch::kInt64).clamp_max(vocabulary_ - 1);
    batch.target = tokens.masked_fill(chosen.logical_not(), data::kNoTarget);
    batch.input = torch::where(chosen.logical_and(fate.ge(kHidden).logical_and(fate.lt(kHidden + kReplaced))),
                               others, tokens)
                      .masked_fill(chosen.logical_and(fate.lt(kHidden)), vocabulary_);
    return batch;
  }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch, std::size_t) const override {
    const torch::Tensor loss = loss_of(network.forward(batch.input), batch.target.flatten());
    return has_gaps() ? loss / target_share_ : loss;
  }

  ScoreShape score_shape() const override {
    if (has_gaps()) return {.sums = 1, .counts = 2, .items = 1};
    return {.sums = 1, .counts = 1};
  }

  Score score(model::Network& network, const TensorBatch& batch) const override {
    const torch::NoGradGuard no_grad;
    torch::Tensor output = network.forward(batch.input);
    if (is_sliced(output))
      output = model::gather(*group_, output, 1, vocabulary_, model::UsedBy::kWholeLayers);
    const torch::Tensor target = batch.target.flatten();
    Score score{{loss_of(output, target).item<double>()},
                {double(output.argmax(1).eq(target).sum().item<std::int64_t>())}};
    if (has_gaps()) score.counts.push_back(double(target.ge(0).sum().item<std::int64_t>()));
    return score;
  }

  std::vector<Metric> metrics(const Tally& tally) const override {
    return {{"accuracy", tally.counts[0] / double(std::max<std::int64_t>(1, tally.items))},
            {"perplexity", std::exp(tally.mean(0))}};
  }

 private:
  bool has_gaps() const { return target_share_ > 0; }

  // Chooses the tokens to predict. A token with target data::kNoTarget is padding.
  torch::Tensor choose(const torch::Tensor& tokens, const torch::Tensor& target) const {
    const torch::Tensor none = torch::zeros_like(tokens, torch::kBool);
    if (!has_gaps()) return none.scatter(1, std::get<1>(draw(tokens).topk(masked_, 1)), true);
    const torch::Tensor own = target.ge(0);
    const torch::Tensor order =
        std::get<1>(draw(tokens).masked_fill_(own.logical_not(), -1).topk(masked_, 1));
    const torch::Tensor wanted = (own.sum(1, true) * kMaskedShare).round_().clamp_min_(1);
    return none.scatter(1, order, torch::arange(masked_).unsqueeze(0).lt(wanted));
  }

  bool is_sliced(const torch::Tensor& output) const { return group_ && output.size(1) < vocabulary_; }

  torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& target) const {
    if (is_sliced(output)) {
      const torch::Tensor wanted = target.ge(0).nonzero().squeeze(1);
      const SliceRange range = share_of(vocabulary_, group_->part(), group_->parts());
      return model::sliced_cross_entropy(*group_, output.index_select(0, wanted),
                                         target.index_select(0, wanted), slice_of({vocabulary_}, 0, range),
                                         0.0);
    }
    return torch::cross_entropy_loss(output, target, {}, at::Reduction::Sum, data::kNoTarget);
  }

  std::int64_t vocabulary_;
  double target_share_;
  std::int64_t masked_;  // per sample, at most
  model::TensorGroup* group_;
};

}  // namespace

std::unique_ptr<Task> make_masked_tokens(const TaskSite& site) {
  if (site.spec.input_type != ElementType::kInt64 || site.spec.classes < 1)
    throw Error(ErrorCode::kBadInput,
                fmt::format("task 'masked_tokens' wants tokens, this data set has {} {}",
                            to_string(site.spec.input_type), to_string(site.spec.input_shape)));
  return std::make_unique<MaskedTokens>(site);
}

}  // namespace distbelief::tasks
