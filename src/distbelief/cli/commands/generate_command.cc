#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/run_model.h"
#include "distbelief/report/picture.h"
#include "distbelief/run/generated.h"
#include "distbelief/run/sampling_text.h"
#include "distbelief/tasks/task.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

struct GenerateFlags {
  std::string run_dir;
  std::string prompt;
  std::vector<std::int64_t> tokens;
  std::string out;
  std::int64_t count = 0;
  run::SampleOptions sample;
  bool json = false;
};

std::vector<std::int64_t> prompt_tokens(const GenerateFlags& flags, const run::TokenText& text,
                                        std::int64_t vocabulary) {
  std::vector<std::int64_t> tokens = flags.tokens;
  if (!flags.prompt.empty() && !text.knows_text())
    throw Error(
        ErrorCode::kBadInput,
        fmt::format(
            "--prompt wants a model that was trained on data set 'text', or on bytes; this one "
            "knows {} tokens (text that an earlier version packed does not say what they stand for); give "
            "--tokens 1,2,3 instead",
            vocabulary));
  if (!flags.prompt.empty()) {
    const std::vector<std::int64_t> words = text.encode(flags.prompt, "--prompt");
    tokens.insert(tokens.end(), words.begin(), words.end());
  }
  if (tokens.empty())
    throw Error(ErrorCode::kBadInput, "a language model wants --prompt TEXT or --tokens 1,2,3");
  for (const std::int64_t token : tokens)
    if (token < 0 || token >= vocabulary)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("token {} is not one of the model's {}", token, vocabulary));
  return tokens;
}

int continue_text(const GenerateFlags& flags, const run::PreparedJob& job) {
  const run::TokenText text(job.data, job.shape.classes);
  const std::vector<std::int64_t> prompt = prompt_tokens(flags, text, job.shape.classes);
  run::SampleOptions options = flags.sample;
  options.count = flags.count > 0 ? flags.count : 200;
  options.context = run::context_of(job.config.model, job.shape.input[0]);
  options.last = text.last();
  const std::vector<std::int64_t> added = run::continue_tokens(*job.network, prompt, options);
  if (flags.json) {
    nlohmann::json answer{{"prompt", prompt}, {"tokens", added}};
    if (text.knows_text()) answer["text"] = text.decode(added);
    fmt::print("{}\n", answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (text.knows_text())
    fmt::print("{}{}\n", flags.prompt, text.decode(added));
  else
    fmt::print("{} {}\n", fmt::join(prompt, " "), fmt::join(added, " "));
  return 0;
}

int draw_sheet(const GenerateFlags& flags, const run::PreparedJob& job) {
  const std::int64_t count = flags.count > 0 ? flags.count : 64;
  const torch::Tensor images =
      run::draw_images(job, *job.network, {.count = count, .seed = flags.sample.seed});
  if (!images.defined())
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("model '{}' generates nothing; gpt, lstm and gru continue text, dcgan and vae draw "
                    "images",
                    job.config.model.name));
  const fs::path out = flags.out.empty() ? fs::path(flags.run_dir) / "samples.png" : fs::path(flags.out);
  report::write_png(out, run::sheet_of(images));
  fmt::print("{} images in {}\n", count, out.string());
  return 0;
}

int generate(const GenerateFlags& flags, const Invocation& invocation) {
  pin_or_restart(invocation);
  torch::set_num_threads(1);
  const run::PreparedJob job = load_run(flags.run_dir, {.data = RunData::kWhenAsked}).job;
  job.network->eval();
  return run::continues_tokens(job) ? continue_text(flags, job) : draw_sheet(flags, job);
}

}  // namespace

void add_generate(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command =
      app.add_subcommand("generate", "continue a text or draw images with a trained model")->group(kUseGroup);
  command->add_option("run", flags->run_dir, "run folder")->required();
  command->add_option("--prompt", flags->prompt, "text to continue");
  command->add_option("--tokens", flags->tokens, "tokens to continue: 1,2,3")->delimiter(',');
  command
      ->add_option("--count", flags->count,
                   "number of tokens to add (default: 200) or of images to draw (default: 64)")
      ->check(CLI::Range(1, 1000000));
  command
      ->add_option("--temperature", flags->sample.temperature,
                   "sampling temperature; 0 takes the likeliest token")
      ->check(CLI::Range(0.0, 100.0));
  command
      ->add_option("--top-k", flags->sample.top_k,
                   "sample among this many of the likeliest tokens; 0: among all")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seed", flags->sample.seed, "seed of the sample");
  command->add_option("--out", flags->out, "PNG file for the images (default: RUN/samples.png)");
  command->add_flag("--json", flags->json, "print the tokens as JSON");
  command->footer(
      "Examples:\n  distbelief generate runs/shakespeare --prompt 'ROMEO:' --temperature 0.8 --top-k 40\n"
      "  distbelief generate runs/dcgan --out sheet.png");
  command->callback(
      [=, &invocation, &run] { run = [=, &invocation] { return generate(*flags, invocation); }; });
}

}  // namespace distbelief::cli
