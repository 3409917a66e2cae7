#include "distbelief/cli/predict_answers.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "distbelief/model/dcgan.h"
#include "distbelief/model/device.h"
#include "distbelief/run/generated.h"
#include "distbelief/run/predictions.h"
#include "distbelief/tasks/ctc_path.h"
#include "distbelief/tasks/election.h"
#include "distbelief/tasks/evaluation.h"
#include "distbelief/tasks/score.h"
#include "distbelief/tasks/task.h"

namespace distbelief::cli {
namespace {

using Json = nlohmann::json;

// Runs each sample of tokens by itself, since it may be shorter than the training samples. Returns one row
// per asked place, or one row per sample if the network has one output for a whole sample.
torch::Tensor token_answers(const run::PreparedJob& job, const GivenSamples& samples, std::uint64_t first,
                            const torch::Tensor& input) {
  std::vector<torch::Tensor> rows;
  for (std::int64_t i = 0; i < input.size(0); ++i) {
    const TokenPlace& place = samples.place(first + std::uint64_t(i));
    const torch::Tensor output = job.network->forward(input.narrow(0, i, 1).narrow(1, 0, place.used));
    if (output.size(0) != place.used)
      rows.push_back(output.narrow(0, 0, 1));
    else
      for (const std::int64_t asked : place.asked) rows.push_back(output.narrow(0, asked, 1));
  }
  return torch::cat(rows);
}

// For a gan, runs only the discriminator: the generator before it would replace the input.
torch::Tensor output_of(const run::PreparedJob& job, const std::string& task, const torch::Tensor& input) {
  return task == "gan" ? job.network->forward(model::kDiscriminatorBlock, input)
                       : job.network->forward(input);
}

class Answerer {
 public:
  Answerer(const run::PreparedJob& job, const InputReader& reader, const AnswerOptions& options)
      : job_(job),
        reader_(reader),
        options_(options),
        task_(tasks::task_name(job.config, job.data.test->spec())) {}

  // Adds an answer for every row of a batch's output; `first` is the batch's first sample.
  void add(torch::Tensor output, const GivenSamples& samples, std::uint64_t first, Json& all) const {
    if (task_ == "masked_tokens") return add_hidden(output, samples, first, all);
    const std::int64_t classes = samples.spec().classes;
    const bool reconstructs = task_ == "autoencoder" || task_ == "vae";
    const bool classifies = !reconstructs && classes > 0 && output.dim() == 2 && output.size(1) == classes;
    if (classifies) output = run::probabilities_of(output, job_.config.train.loss);
    const torch::Tensor images = run::reconstructed_images(job_, output);
    for (std::int64_t i = 0; i < output.size(0); ++i) {
      const std::string& name = samples.name(first + std::uint64_t(i));
      all.push_back({{"input", name}});
      Json& answer = all.back();
      if (task_ == "segmentation")
        add_pixels(answer, name, output[i]);
      else if (reconstructs)
        add_code(answer, name, output[i], images.defined() ? images.narrow(0, i, 1) : images);
      else if (task_ == "ctc")
        answer["labels"] = labels_in_order(output[i]);
      else if (task_ == "actor_critic")
        add_action(answer, output[i], classes);
      else if (task_ == "gan")
        answer["real"] = output[i].sigmoid().item<double>();
      else if (classifies)
        answer["classes"] = top_classes(output[i]);
      else
        answer["values"] = values_of(output[i]);
    }
  }

 private:
  Json named_class(std::int64_t index) const {
    Json found{{"class", index}};
    if (std::string name = reader_.class_name(index); !name.empty()) found["name"] = std::move(name);
    return found;
  }

  Json top_classes(const torch::Tensor& probabilities) const {
    const auto [values, classes] =
        probabilities.topk(std::min<std::int64_t>(options_.top, probabilities.size(0)));
    Json found = Json::array();
    for (std::int64_t i = 0; i < values.size(0); ++i) {
      found.push_back(named_class(classes[i].item<std::int64_t>()));
      found.back()["probability"] = values[i].item<double>();
    }
    return found;
  }

  // The labels on the likeliest path; `output` is [frames, classes].
  Json labels_in_order(const torch::Tensor& output) const {
    const model::HostValues<std::int64_t> path(output.argmax(1));
    Json found = Json::array();
    for (const std::int64_t label : tasks::labels_of({path.data(), path.size()}))
      found.push_back(named_class(label));
    return found;
  }

  Json values_of(const torch::Tensor& output) const {
    Json found = Json::array();
    for (const double value : model::HostValues<double>(output.flatten().to(torch::kFloat64)))
      found.push_back(reader_.value(value));
    return found;
  }

  // The same for outputs that are no target, in the network's units.
  static Json numbers_of(const torch::Tensor& output) {
    const model::HostValues<double> numbers(output.flatten().to(torch::kFloat64));
    return std::vector<double>(numbers.begin(), numbers.end());
  }

  // `output` has a row for each hidden token of each sample.
  void add_hidden(const torch::Tensor& output, const GivenSamples& samples, std::uint64_t first,
                  Json& all) const {
    const torch::Tensor chances = run::probabilities_of(output, job_.config.train.loss);
    for (std::int64_t row = 0; row < chances.size(0); ++first) {
      const TokenPlace& place = samples.place(first);
      Json hidden = Json::array();
      for (std::size_t i = 0; i < place.asked.size(); ++i, ++row) {
        hidden.push_back({{"place", place.asked[i]}, {"classes", top_classes(chances[row])}});
        if (!place.truth.empty()) hidden.back()["truth"] = named_class(place.truth[i]);
      }
      all.push_back({{"input", samples.name(first)}});
      if (hidden.size() == 1) all.back()["classes"] = hidden[0]["classes"];
      all.back()["hidden"] = std::move(hidden);
    }
  }

  // Adds the action that validation would take, and the mean probability of each over the voters. `output` is
  // [logits of each voter | value of each].
  void add_action(Json& answer, const torch::Tensor& output, std::int64_t actions) const {
    const std::int64_t voters = output.size(0) / (actions + 1);
    const torch::Tensor chances =
        output.narrow(0, 0, voters * actions).view({voters, actions}).softmax(1).to(torch::kFloat64);
    const model::HostValues<std::int64_t> votes(chances.argmax(1));
    const model::HostValues<double> together(chances.sum(0));
    answer["action"] = tasks::elect({votes.data(), votes.size()}, {together.data(), together.size()});
    answer["probabilities"] = numbers_of(chances.mean(0));
    answer["value"] = output.narrow(0, voters * actions, voters).mean().item<double>();
    if (voters > 1) answer["votes"] = std::vector<std::int64_t>(votes.begin(), votes.end());
  }

  // `output` is [classes, height, width].
  void add_pixels(Json& answer, const std::string& name, const torch::Tensor& output) const {
    const torch::Tensor classes = model::on_host(output.argmax(0));
    const report::ClassImage image{.height = int(classes.size(0)),
                                   .width = int(classes.size(1)),
                                   .classes = model::host_elements<std::int64_t>(classes)};
    answer["picture"] = options_.pictures.add(name, report::picture_of(image)).string();
    const torch::Tensor counts = torch::bincount(classes.flatten(), {}, output.size(0));
    answer["classes"] = Json::array();
    for (std::int64_t i = 0; i < counts.size(0); ++i) {
      const auto count = counts[i].item<std::int64_t>();
      if (count == 0) continue;
      Json found = named_class(i);
      found["share"] = double(count) / double(classes.numel());
      found["colour"] = fmt::format("#{:06x}", report::class_colour(i));
      answer["classes"].push_back(std::move(found));
    }
  }

  // `output` is the reconstruction, the code, and for a vae the log variances.
  void add_code(Json& answer, const std::string& name, const torch::Tensor& output,
                const torch::Tensor& image) const {
    const std::int64_t elements = element_count(job_.shape.input);
    const std::int64_t rest = output.size(0) - elements;
    const torch::Tensor code = output.narrow(0, elements, task_ == "vae" ? rest / 2 : rest);
    answer["code"] = numbers_of(code);
    add_cluster(answer, code);
    if (image.defined())
      answer["picture"] = options_.pictures.add(name, run::sheet_of(image)).string();
    else
      answer["values"] = numbers_of(output.narrow(0, 0, elements));
  }

  void add_cluster(Json& answer, const torch::Tensor& code) const {
    const model::HostValues<double> point(code.to(torch::kFloat64));
    if (!options_.clusters || options_.clusters->width != point.size()) return;
    answer["cluster"] = tasks::nearest_centre({point.data(), point.size()}, options_.clusters->centres);
  }

  const run::PreparedJob& job_;
  const InputReader& reader_;
  const AnswerOptions& options_;
  std::string task_;
};

}  // namespace

Json predict_answers(const run::PreparedJob& job, const GivenSamples& samples, const InputReader& reader,
                     const AnswerOptions& options) {
  const torch::NoGradGuard no_grad;
  const data::BatchMaker maker(samples,
                               {.seed = job.config.train.seed, .normalize = job.config.data.normalize});
  const Answerer answerer(job, reader, options);
  const std::string kind = tasks::task_name(job.config, samples.spec());
  const auto task =
      options.rows ? tasks::make_task(job.config, samples.spec(), nullptr, options.rows) : nullptr;
  const bool tokens = job.shape.tokens && job.shape.input.size() == 1 && !task;
  data::Batch batch;
  Json all = Json::array();
  job.network->eval();
  for (std::uint64_t first = 0; first < samples.size(); first += tasks::kEvaluationChunk) {
    maker.eval_batch({first, std::min(samples.size(), first + tasks::kEvaluationChunk)}, batch);
    const torch::Device& device = job.network->device();
    const torch::Tensor input = task ? tasks::prepared_for_test(*task, tasks::as_tensors(batch), device).input
                                     : model::on_device(tasks::as_tensors(batch).input, device);
    answerer.add(tokens ? token_answers(job, samples, first, input) : output_of(job, kind, input), samples,
                 first, all);
  }
  return all;
}

}  // namespace distbelief::cli
