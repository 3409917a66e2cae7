#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/predict_inputs.h"
#include "distbelief/cli/run_model.h"
#include "distbelief/train/evaluation.h"
#include "distbelief/train/task.h"

namespace distbelief::cli {
namespace {

using Json = nlohmann::json;

struct PredictFlags {
  std::string run_dir;
  std::vector<std::string> inputs;
  std::string data_dir;
  int top = 3;
  bool best = false;
  bool json = false;
};

// What outputs mean depends on what was minimised.
torch::Tensor probabilities_of(const torch::Tensor& output, const std::string& loss) {
  if (loss != "mse") return torch::softmax(output, 1);  // of log-probabilities they are the probabilities
  const torch::Tensor shares = output.clamp(0, 1);
  return shares / shares.sum(1, /*keepdim=*/true).clamp_min(1e-12);
}

Json top_classes(const torch::Tensor& probabilities, int top, const InputReader& reader) {
  const auto [values, classes] = probabilities.topk(std::min<std::int64_t>(top, probabilities.size(0)));
  Json found = Json::array();
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    const auto index = classes[i].item<std::int64_t>();
    found.push_back({{"class", index}, {"probability", values[i].item<double>()}});
    if (std::string name = reader.class_name(index); !name.empty()) found.back()["name"] = std::move(name);
  }
  return found;
}

// Of tokens each sample is seen by itself, since it may be shorter than those that were trained on.
torch::Tensor token_answers(const train::PreparedJob& job, const GivenSamples& samples, std::uint64_t first,
                            const torch::Tensor& input) {
  std::vector<torch::Tensor> rows;
  for (std::int64_t i = 0; i < input.size(0); ++i) {
    const TokenPlace place = samples.place(first + std::uint64_t(i));
    const torch::Tensor output = job.network->forward(input.narrow(0, i, 1).narrow(1, 0, place.used));
    const bool of_each = output.size(0) == place.used;
    rows.push_back(output.narrow(0, of_each ? place.asked : 0, 1));
  }
  return torch::cat(rows);
}

Json values_of(const torch::Tensor& output, const InputReader& reader) {
  const torch::Tensor values = output.flatten().to(torch::kFloat64).contiguous();
  Json found = Json::array();
  for (std::int64_t i = 0; i < values.numel(); ++i)
    found.push_back(reader.value(values.data_ptr<double>()[i]));
  return found;
}

Json answers(const train::PreparedJob& job, const GivenSamples& samples, const InputReader& reader, int top) {
  const torch::NoGradGuard no_grad;
  const data::BatchMaker maker(samples,
                               {.seed = job.config.train.seed, .normalize = job.config.data.normalize});
  const std::int64_t classes = samples.spec().classes;
  data::Batch batch;
  Json all = Json::array();
  job.network->eval();
  for (std::uint64_t first = 0; first < samples.size(); first += train::kEvaluationChunk) {
    maker.eval_batch({first, std::min(samples.size(), first + train::kEvaluationChunk)}, batch);
    const torch::Tensor input = train::as_tensors(batch).input;
    const bool tokens = job.shape.tokens && job.shape.input.size() == 1;
    torch::Tensor output = tokens ? token_answers(job, samples, first, input) : job.network->forward(input);
    const bool classifies = classes > 0 && output.dim() == 2 && output.size(1) == classes;
    if (classifies) output = probabilities_of(output, job.config.train.loss);
    for (std::int64_t i = 0; i < std::int64_t(batch.size); ++i) {
      all.push_back({{"input", samples.name(first + std::uint64_t(i))}});
      all.back()[classifies ? "classes" : "values"] =
          classifies ? top_classes(output[i], top, reader) : values_of(output[i], reader);
    }
  }
  return all;
}

// The number, or the name; of a token in quotes, so that blanks are seen.
std::string shown_class(const Json& found, bool tokens) {
  const std::string name = found.value("name", "");
  if (name.empty()) return std::to_string(found["class"].get<std::int64_t>());
  return tokens ? Json(name).dump(-1, ' ', false, Json::error_handler_t::replace) : name;
}

void show_answer(const Json& answer, bool tokens) {
  fmt::print("{}:", answer["input"].get<std::string>());
  if (answer.contains("values"))
    for (const Json& value : answer["values"]) fmt::print(" {:.6g}", value.get<double>());
  else
    for (const Json& found : answer["classes"])
      fmt::print("{} {} ({:.1f} %)", &found == &answer["classes"][0] ? "" : ",", shown_class(found, tokens),
                 100 * found["probability"].get<double>());
  fmt::print("\n");
}

int predict(const PredictFlags& flags, const Invocation& invocation) {
  pin_or_restart(invocation);
  torch::set_num_threads(1);
  const RunModel run = load_run(flags.run_dir, {.data_dir = flags.data_dir, .best = flags.best});
  const data::Source& test = *run.job.data.test;
  const bool hidden = train::task_name(run.job.config, test.spec()) == "masked_tokens";
  const InputReader reader(run.job.config.data, test, hidden ? TokenQuestion::kHidden : TokenQuestion::kNext);
  GivenSamples samples(test.spec());
  for (const std::string& input : flags.inputs) reader.add(input, samples);
  const Json found = answers(run.job, samples, reader, flags.top);
  if (flags.json)
    fmt::print("{}\n", found.dump(-1, ' ', false, Json::error_handler_t::replace));
  else
    for (const Json& answer : found) show_answer(answer, run.job.shape.tokens);
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<PredictFlags>();
  CLI::App* command =
      app.add_subcommand("predict", "let a trained model say what it makes of images, tables or text");
  command->add_option("run", flags->run_dir, "run folder")->required();
  command
      ->add_option(
          "input", flags->inputs,
          "images (.jpg, .png, .ppm, .pgm), tables (.csv, .tsv), texts (.txt, text:WORDS), IDX files, "
          "test:N or test:N-M")
      ->required();
  command->add_option("--top", flags->top, "how many classes to name")->check(CLI::Range(1, 1000000));
  command->add_flag("--best", flags->best, "the best checkpoint instead of the last weights");
  command->add_flag("--json", flags->json, "answer as JSON");
  command->add_option("--data-dir", flags->data_dir, "where the data is, if not where the run had it");
  command->footer(
      "Examples:\n"
      "  distbelief predict runs/my-run shoe.jpg shirt.png --top 5\n"
      "  distbelief predict runs/my-run rows.csv --json\n"
      "  distbelief predict runs/my-run 'text:To be or not to '\n"
      "  distbelief predict runs/my-run test:0-9");
  command->callback(
      [=, &invocation, &run] { run = [=, &invocation] { return predict(*flags, invocation); }; });
}

}  // namespace distbelief::cli
