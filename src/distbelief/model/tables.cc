#include "distbelief/model/tables.h"

#include "distbelief/model/mlp.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

// With `negatives` wrong words per right one, the best score of a pair is the logarithm of its frequency
// relative to chance, minus log(negatives). The bias learns that constant.
class PairBias final : public Block {
 public:
  PairBias() : bias_(register_parameter("bias", torch::zeros({1}))) {}
  torch::Tensor forward(torch::Tensor scores) override { return scores + bias_; }

 private:
  torch::Tensor bias_;
};

std::vector<OptionSpec> row_options(std::int64_t width, double scale) {
  return {{"width", width, "numbers in a row of the tables"},
          {"scale", scale, "rows begin uniform between -scale and scale"},
          {"most_rows", std::int64_t{0},
           "of each table; more: the least recently updated go; 0: as many as come"}};
}

}  // namespace

std::vector<OptionSpec> click_through_options() {
  std::vector<OptionSpec> options = mlp_options();
  for (OptionSpec& option : row_options(16, 0.05)) options.push_back(std::move(option));
  return options;
}

Blueprint click_through_blueprint(const OptionMap& options, const DataShape& shape) {
  const std::int64_t width = positive_option("click_through", options, "width");
  DataShape rows = shape;
  if (shape.tokens) {
    rows.tokens = false;
    rows.input = {element_count(shape.input) * width};
  }
  return mlp_blueprint(options, rows);
}

std::vector<OptionSpec> word2vec_options() {
  std::vector<OptionSpec> options = row_options(64, 0.01);
  options.push_back({"window", std::int64_t{4}, "words to each side of one that it is to go with"});
  options.push_back({"negatives", std::int64_t{5}, "words drawn at random that it is not to go with"});
  return options;
}

Blueprint word2vec_blueprint(const OptionMap& options, const DataShape&) {
  for (const char* name : {"width", "window", "negatives"}) positive_option("word2vec", options, name);
  return {{"pairs", [](const BlockSite&) { return std::make_shared<PairBias>(); }}};
}

}  // namespace distbelief::model
