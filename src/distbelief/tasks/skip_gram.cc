#include <fmt/format.h>

#include <cmath>

#include "distbelief/base/error.h"
#include "distbelief/data/formats/vocabulary.h"
#include "distbelief/model/random.h"
#include "distbelief/tasks/task_kinds.h"

namespace distbelief::tasks {
namespace {

constexpr double kFlattened = 0.75;  // negatives are drawn by a word's frequency to this power
constexpr int kWords = 0, kContexts = 1;

// Skip-gram with negative sampling (Mikolov et al., 2013). A sample is a sentence. Every word has one row as
// a word and one as a context. A word is paired with the words up to `window` places away (positives) and
// with `negatives` drawn ones (negatives). Those are drawn from the batch's words by their frequency in the
// batch to the power 0.75.
class SkipGram final : public Task {
 public:
  SkipGram(const TaskSite& site, const OptionMap& options)
      : length_(element_count(site.spec.target_shape)),
        window_(option<std::int64_t>(options, "window")),
        negatives_(option<std::int64_t>(options, "negatives")),
        rows_(site.rows),
        words_{.name = "words",
               .width = std::uint32_t(option<std::int64_t>(options, "width")),
               .seed = site.train.seed,
               .scale = option<double>(options, "scale"),
               .most_rows = std::uint64_t(option<std::int64_t>(options, "most_rows"))},
        contexts_(words_) {
    contexts_.name = "contexts";
    contexts_.scale = 0;  // zero as in the original: no pairs are known yet
  }

  std::int64_t items_per_sample() const override { return length_; }
  std::vector<comm::TableSpec> tables() const override { return {words_, contexts_}; }

  // Returns the scores of the positive pairs, then of the drawn ones, as the input, and their weights as the
  // target.
  TensorBatch prepared(TensorBatch batch) const override {
    // Padding after a sentence has no target and counts as no word.
    const torch::Tensor tokens =
        batch.target.view({-1, length_}).clamp_min(std::int64_t(data::Vocabulary::kSentenceEnd));
    const torch::Tensor is_word = tokens.gt(std::int64_t(data::Vocabulary::kUnknownWord)).to(torch::kFloat32);
    const torch::Tensor drawn = draw(tokens);
    const torch::Tensor words = gather_rows(rows_, kWords, words_, tokens, batch.rows);
    // One pull covers neighbours and drawn words, because a row must be one leaf.
    const torch::Tensor others =
        gather_rows(rows_, kContexts, contexts_, torch::cat({tokens.flatten(), drawn.flatten()}), batch.rows);
    const torch::Tensor neighbours = others.narrow(0, 0, tokens.numel()).view(words.sizes());
    const torch::Tensor wrong =
        others.narrow(0, tokens.numel(), drawn.numel()).view({tokens.size(0), length_, negatives_, -1});
    std::vector<torch::Tensor> scores, weights;
    torch::Tensor partners = torch::zeros_like(is_word);  // per word
    for (std::int64_t away = 1; away <= std::min(window_, length_ - 1); ++away) {
      const std::int64_t pairs = length_ - away;
      const auto front = [&](const torch::Tensor& all) { return all.narrow(1, 0, pairs); };
      const auto back = [&](const torch::Tensor& all) { return all.narrow(1, away, pairs); };
      const torch::Tensor both = front(is_word) * back(is_word);
      scores.push_back((front(words) * back(neighbours)).sum(2));
      scores.push_back((back(words) * front(neighbours)).sum(2));
      weights.insert(weights.end(), {both, both});
      front(partners).add_(both);
      back(partners).add_(both);
    }
    scores.push_back((words.unsqueeze(2) * wrong).sum(3).flatten(1));
    // A drawn word equal to the word itself gets weight 0.
    weights.push_back((partners.unsqueeze(2) * drawn.ne(tokens.unsqueeze(2))).flatten(1));
    batch.input = torch::cat(scores, 1);
    batch.target = torch::cat(weights, 1);
    return batch;
  }

  torch::Tensor loss_sum(model::Network& network, const TensorBatch& batch, std::size_t) const override {
    return loss_of(network.forward(batch.input), batch.target);
  }

  ScoreShape score_shape() const override { return {.sums = 3, .counts = 0}; }

  Score score(model::Network& network, const TensorBatch& batch) const override {
    const torch::NoGradGuard no_grad;
    const torch::Tensor scores = network.forward(batch.input);
    const std::int64_t right = scores.size(1) - length_ * negatives_;
    const torch::Tensor weights = batch.target.narrow(1, 0, right);
    // The score at which two words are as frequent together as when drawn at random (Levy and Goldberg,
    // 2014).
    const double by_chance = -std::log(double(negatives_));
    return {{loss_of(scores, batch.target).item<double>(),
             (scores.narrow(1, 0, right).gt(by_chance) * weights).sum().item<double>(),
             weights.sum().item<double>()},
            {}};
  }

  // The share of positive pairs that score as more frequent together than by chance.
  std::vector<Metric> metrics(const Tally& tally) const override {
    return {{"recognised", tally.sums[1] / std::max(1.0, tally.sums[2])}};
  }

 private:
  torch::Tensor draw(const torch::Tensor& tokens) const {
    const auto [unique, inverse, counts] = at::unique_dim(tokens.flatten(), 0, true, true, true);
    torch::Tensor chances = counts.to(torch::kFloat32).pow(kFlattened);
    chances = chances * unique.gt(std::int64_t(data::Vocabulary::kUnknownWord));
    if (chances.sum().item<float>() <= 0) chances = torch::ones_like(chances);  // a batch without words
    const std::int64_t wanted = tokens.numel() * negatives_;
    const auto generator = model::current_generator();
    const torch::Tensor chosen =
        torch::multinomial(chances, wanted, /*replacement=*/true,
                           generator ? c10::optional<at::Generator>(*generator) : c10::nullopt);
    return unique.index_select(0, chosen).view({tokens.size(0), length_, negatives_});
  }

  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& weights) const {
    const std::int64_t wrong = length_ * negatives_, right = scores.size(1) - wrong;
    const torch::Tensor good = torch::log_sigmoid(scores.narrow(1, 0, right)) * weights.narrow(1, 0, right);
    const torch::Tensor bad =
        torch::log_sigmoid(-scores.narrow(1, right, wrong)) * weights.narrow(1, right, wrong);
    return -(good.sum() + bad.sum());
  }

  std::int64_t length_, window_, negatives_;
  RowSource* rows_;
  comm::TableSpec words_, contexts_;
};

}  // namespace

std::unique_ptr<Task> make_skip_gram(const TaskSite& site) {
  if (site.model.name != "word2vec" || site.spec.input_type != ElementType::kInt64 ||
      site.spec.target_shape.size() != 1 || site.spec.target_shape[0] < 2)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("task 'skip_gram' wants model word2vec and sentences of words (data.name = \"text\", "
                    "data.level = \"sentences\"), found model '{}' and targets {}",
                    site.model.name, to_string(site.spec.target_shape)));
  return std::make_unique<SkipGram>(site, model::resolved_options(site.model));
}

}  // namespace distbelief::tasks
