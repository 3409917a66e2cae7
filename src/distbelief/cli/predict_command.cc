#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/predict_inputs.h"
#include "distbelief/cli/run_model.h"
#include "distbelief/train/evaluation.h"

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

// Of tokens the network tells what comes after each; wanted is what comes after the last.
torch::Tensor last_of_each(const torch::Tensor& output, std::int64_t samples) {
  if (output.size(0) == samples) return output;
  return output.reshape({samples, -1, output.size(1)}).select(1, -1);
}

Json top_classes(const torch::Tensor& probabilities, int top) {
  const auto [values, classes] = probabilities.topk(std::min<std::int64_t>(top, probabilities.size(0)));
  Json found = Json::array();
  for (std::int64_t i = 0; i < values.size(0); ++i)
    found.push_back({{"class", classes[i].item<std::int64_t>()}, {"probability", values[i].item<double>()}});
  return found;
}

Json answers(const train::PreparedJob& job, const GivenSamples& samples, int top) {
  const torch::NoGradGuard no_grad;
  const data::BatchMaker maker(samples,
                               {.seed = job.config.train.seed, .normalize = job.config.data.normalize});
  const std::int64_t classes = samples.spec().classes;
  data::Batch batch;
  Json all = Json::array();
  job.network->eval();
  for (std::uint64_t first = 0; first < samples.size(); first += train::kEvaluationChunk) {
    maker.eval_batch({first, std::min(samples.size(), first + train::kEvaluationChunk)}, batch);
    torch::Tensor output = job.network->forward(train::as_tensors(batch).input);
    const bool classifies = classes > 0 && output.dim() == 2 && output.size(1) == classes;
    if (classifies)
      output = probabilities_of(last_of_each(output, std::int64_t(batch.size)), job.config.train.loss);
    for (std::int64_t i = 0; i < std::int64_t(batch.size); ++i) {
      all.push_back({{"input", samples.name(first + std::uint64_t(i))}});
      if (classifies) {
        all.back()["classes"] = top_classes(output[i], top);
        continue;
      }
      const torch::Tensor values = output[i].flatten().to(torch::kFloat64).contiguous();
      all.back()["values"] =
          std::vector<double>(values.data_ptr<double>(), values.data_ptr<double>() + values.numel());
    }
  }
  return all;
}

void show_answer(const Json& answer) {
  fmt::print("{}:", answer["input"].get<std::string>());
  if (answer.contains("values"))
    for (const Json& value : answer["values"]) fmt::print(" {:.6g}", value.get<double>());
  else
    for (const Json& found : answer["classes"])
      fmt::print("{} {} ({:.1f} %)", &found == &answer["classes"][0] ? "" : ",",
                 found["class"].get<std::int64_t>(), 100 * found["probability"].get<double>());
  fmt::print("\n");
}

int predict(const PredictFlags& flags, const Invocation& invocation) {
  pin_or_restart(invocation);
  torch::set_num_threads(1);
  const RunModel run = load_run(flags.run_dir, {.data_dir = flags.data_dir, .best = flags.best});
  GivenSamples samples(run.job.data.test->spec());
  for (const std::string& input : flags.inputs) add_input(input, *run.job.data.test, samples);
  const Json found = answers(run.job, samples, flags.top);
  if (flags.json)
    fmt::print("{}\n", found.dump(-1, ' ', false, Json::error_handler_t::replace));
  else
    for (const Json& answer : found) show_answer(answer);
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<PredictFlags>();
  CLI::App* command =
      app.add_subcommand("predict", "let a trained model say what it makes of images or numbers");
  command->add_option("run", flags->run_dir, "run folder")->required();
  command
      ->add_option("input", flags->inputs,
                   "images (.ppm, .pgm), tables (.csv, a row per sample), IDX files, test:N or test:N-M")
      ->required();
  command->add_option("--top", flags->top, "how many classes to name")->check(CLI::Range(1, 1000000));
  command->add_flag("--best", flags->best, "the best checkpoint instead of the last weights");
  command->add_flag("--json", flags->json, "answer as JSON");
  command->add_option("--data-dir", flags->data_dir, "where the data is, if not where the run had it");
  command->footer(
      "Examples:\n"
      "  distbelief predict runs/my-run shoe.pgm shirt.ppm --top 5\n"
      "  distbelief predict runs/my-run rows.csv --json\n"
      "  distbelief predict runs/my-run test:0-9");
  command->callback(
      [=, &invocation, &run] { run = [=, &invocation] { return predict(*flags, invocation); }; });
}

}  // namespace distbelief::cli
