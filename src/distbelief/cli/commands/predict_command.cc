#include <fmt/format.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/predict_answers.h"
#include "distbelief/cli/predict_inputs.h"
#include "distbelief/cli/run_model.h"
#include "distbelief/run/state_file.h"
#include "distbelief/tasks/task.h"

namespace distbelief::cli {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

struct PredictFlags {
  std::string run_dir;
  std::vector<std::string> inputs;
  std::string data_dir;
  std::string out;
  int top = 3;
  bool best = false;
  bool json = false;
};

// The number or the name of a class; a token's name in quotes, so that blanks are visible.
std::string shown_class(const Json& found, bool tokens) {
  const std::string name = found.value("name", "");
  if (name.empty()) return std::to_string(found["class"].get<std::int64_t>());
  return tokens ? Json(name).dump(-1, ' ', false, Json::error_handler_t::replace) : name;
}

// Prints the likeliest classes with their probabilities or shares.
void show_classes(const Json& classes, bool tokens) {
  const char* comma = "";
  for (const Json& found : classes) {
    const double share = found.value("probability", found.value("share", 0.0));
    fmt::print("{} {} ({:.1f} %)", std::exchange(comma, ","), shown_class(found, tokens), 100 * share);
  }
}

void show_action(const Json& answer) {
  fmt::print(" action {} (", answer["action"].get<std::int64_t>());
  const char* comma = "";
  for (const Json& chance : answer["probabilities"])
    fmt::print("{}{:.1f} %", std::exchange(comma, ", "), 100 * chance.get<double>());
  fmt::print("), value {:.6g}", answer["value"].get<double>());
  if (answer.contains("votes")) fmt::print(", votes");
  for (const Json& vote : answer.value("votes", Json::array())) fmt::print(" {}", vote.get<std::int64_t>());
}

void show_hidden(const Json& hidden, bool tokens) {
  const char* semicolon = "";
  for (const Json& found : hidden) {
    fmt::print("{} place {}", std::exchange(semicolon, ";"), found["place"].get<std::int64_t>());
    if (found.contains("truth")) fmt::print(", which is {}", shown_class(found["truth"], tokens));
    fmt::print(":");
    show_classes(found["classes"], tokens);
  }
}

void show_answer(const Json& answer, bool tokens) {
  fmt::print("{}:", answer["input"].get<std::string>());
  if (answer.contains("picture")) fmt::print(" {}:", answer["picture"].get<std::string>());
  if (answer.contains("code")) fmt::print(" code");
  for (const Json& value : answer.value("code", Json::array())) fmt::print(" {:.6g}", value.get<double>());
  if (answer.contains("cluster")) fmt::print(", cluster {}", answer["cluster"].get<int>());
  for (const Json& value : answer.value("values", Json::array())) fmt::print(" {:.6g}", value.get<double>());
  for (const Json& label : answer.value("labels", Json::array()))
    fmt::print(" {}", shown_class(label, tokens));
  if (answer.contains("labels") && answer["labels"].empty()) fmt::print(" nothing");
  if (answer.contains("action")) show_action(answer);
  if (answer.contains("real")) fmt::print(" real ({:.1f} %)", 100 * answer["real"].get<double>());
  if (answer.contains("hidden"))
    show_hidden(answer["hidden"], tokens);
  else
    show_classes(answer.value("classes", Json::array()), tokens);
  fmt::print("\n");
}

int predict(const PredictFlags& flags, const Invocation& invocation) {
  pin_or_restart(invocation);
  torch::set_num_threads(1);
  const RunModel run =
      load_run(flags.run_dir, {.data_dir = flags.data_dir, .best = flags.best, .data = RunData::kWhenAsked});
  const data::Source& test = *run.job.data.test;
  const std::string task = tasks::task_name(run.job.config, test.spec());
  if (task == "skip_gram")
    throw Error(
        ErrorCode::kBadInput,
        "vectors of words predict nothing; distbelief nearest RUN WORD... shows what they have learnt");
  const bool hidden = task == "masked_tokens";
  const std::unique_ptr<run::SavedTables> rows = rows_of_run(flags.run_dir, run.job);
  const InputReader reader(run.job.data, hidden ? TokenQuestion::kHidden : TokenQuestion::kNext);
  GivenSamples samples(test.spec());
  for (const std::string& input : flags.inputs) reader.add(input, samples);
  report::PictureFolder pictures(flags.out.empty() ? fs::path(flags.run_dir) / "predicted"
                                                   : fs::path(flags.out));
  const auto clusters = run::CodeClusters::load(flags.run_dir, run::weights_sha256(*run.job.network));
  const Json found =
      predict_answers(run.job, samples, reader,
                      {.top = flags.top, .pictures = pictures, .rows = rows.get(), .clusters = clusters});
  if (flags.json)
    fmt::print("{}\n", found.dump(-1, ' ', false, Json::error_handler_t::replace));
  else
    for (const Json& answer : found) show_answer(answer, run.job.shape.tokens);
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<PredictFlags>();
  CLI::App* command = app.add_subcommand("predict", "apply a trained model to images, tables, texts or trees")
                          ->group(kUseGroup);
  command->add_option("run", flags->run_dir, "run folder")->required();
  command
      ->add_option("input", flags->inputs,
                   "images (.jpg, .png, .ppm, .pgm), tables (.csv, .tsv), texts (.txt and others, "
                   "text:WORDS), trees (.sexp, tree:EXPRESSION), IDX files, test:N or test:N-M")
      ->required();
  command->add_option("--top", flags->top, "number of classes to list")->check(CLI::Range(1, 1000000));
  command->add_flag("--best", flags->best, "use the best checkpoint instead of the last weights");
  command->add_option(
      "--out", flags->out,
      "folder for the images that segmentation and autoencoders produce (default: RUN/predicted)");
  command->add_flag("--json", flags->json, "print JSON");
  command->add_option("--data-dir", flags->data_dir, "path of the data, if it has moved since the run");
  command->footer(
      "Examples:\n"
      "  distbelief predict runs/my-run shoe.jpg shirt.png --top 5\n"
      "  distbelief predict runs/my-run rows.csv --json\n"
      "  distbelief predict runs/my-run 'text:To be or not to '\n"
      "  distbelief predict runs/my-run 'tree:(and true (not false))'\n"
      "  distbelief predict runs/my-run test:0-9 --out pictures");
  command->callback(
      [=, &invocation, &run] { run = [=, &invocation] { return predict(*flags, invocation); }; });
}

}  // namespace distbelief::cli
