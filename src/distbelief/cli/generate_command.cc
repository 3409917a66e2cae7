#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/job_file.h"
#include "distbelief/data/text.h"
#include "distbelief/model/random.h"
#include "distbelief/report/png_file.h"
#include "distbelief/train/job.h"
#include "distbelief/train/sampling_text.h"
#include "distbelief/train/state_file.h"
#include "distbelief/train/task.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kByteTokens = 256;
constexpr int kSheetColumns = 8;

struct GenerateFlags {
  std::string run_dir;
  std::string prompt;
  std::vector<std::int64_t> tokens;
  std::string out;
  std::int64_t count = 0;
  train::SampleOptions sample;
  bool json = false;
};

train::PreparedJob trained_job(const fs::path& run_dir) {
  if (!fs::exists(run_dir / "job.toml") || !fs::exists(run_dir / "model.safetensors"))
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} is not the folder of a run that has ended: it wants job.toml and model.safetensors",
                    run_dir.string()));
  Config config = load_job_file(run_dir / "job.toml");
  config.parallel.pipeline = config.parallel.tensor = config.parallel.zero =
      1;  // one process holds all of it
  config.parallel.zero_inside_host = config.parallel.split_features = false;
  train::PreparedJob job = train::prepare_job(config);
  train::load_model(*job.network, run_dir / "model.safetensors");
  job.network->eval();
  return job;
}

// What tokens mean: those of a text, or bytes where there are 256 of unknown meaning, or nothing.
std::optional<data::Vocabulary> vocabulary_of(const train::PreparedJob& job) {
  if (job.config.data.name == "text") return data::learn_vocabulary(job.config.data);
  if (job.shape.classes != kByteTokens) return std::nullopt;
  return data::Vocabulary(data::TextLevel::kBytes, "", "", 0);
}

std::vector<std::int64_t> prompt_tokens(const GenerateFlags& flags, const model::DataShape& shape,
                                        const std::optional<data::Vocabulary>& vocabulary) {
  std::vector<std::int64_t> tokens = flags.tokens;
  if (!flags.prompt.empty() && !vocabulary)
    throw Error(ErrorCode::kBadInput,
                fmt::format("--prompt wants a model of text or bytes, this one knows {} tokens without a "
                            "meaning; give --tokens 1,2,3 instead",
                            shape.classes));
  if (vocabulary)
    std::ranges::copy(vocabulary->encode(flags.prompt, "--prompt", 0), std::back_inserter(tokens));
  if (tokens.empty())
    throw Error(ErrorCode::kBadInput, "a language model wants --prompt TEXT or --tokens 1,2,3");
  for (const std::int64_t token : tokens)
    if (token < 0 || token >= shape.classes)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("token {} is not one of the model's {}", token, shape.classes));
  return tokens;
}

std::string text_of(const data::Vocabulary& vocabulary, const std::vector<std::int64_t>& tokens) {
  std::string text;
  for (const std::int64_t token : tokens) text += vocabulary.decode(std::uint32_t(token));
  return text;
}

int continue_text(const GenerateFlags& flags, const train::PreparedJob& job) {
  const std::optional<data::Vocabulary> vocabulary = vocabulary_of(job);
  const std::vector<std::int64_t> prompt = prompt_tokens(flags, job.shape, vocabulary);
  train::SampleOptions options = flags.sample;
  options.count = flags.count > 0 ? flags.count : 200;
  options.context = job.shape.input[0];
  const std::vector<std::int64_t> added = train::continue_tokens(*job.network, prompt, options);
  nlohmann::json answer{{"prompt", prompt}, {"tokens", added}};
  if (vocabulary) answer["text"] = text_of(*vocabulary, added);
  if (flags.json)
    fmt::print("{}\n", answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  else if (vocabulary)
    fmt::print("{}{}\n", text_of(*vocabulary, prompt), text_of(*vocabulary, added));
  else
    fmt::print("{} {}\n", fmt::join(prompt, " "), fmt::join(added, " "));
  return 0;
}

torch::Tensor draw_images(const GenerateFlags& flags, const train::PreparedJob& job, std::int64_t count) {
  const torch::NoGradGuard no_grad;
  const model::GeneratorScope randomness(flags.sample.seed);
  Shape batch = job.shape.input;
  batch.insert(batch.begin(), count);
  return job.network->forward(0, torch::zeros(batch));
}

report::Picture picture_of(const torch::Tensor& image) {
  const torch::Tensor bytes =
      (image.clamp(0, 1) * 255).round().to(torch::kUInt8).permute({1, 2, 0}).contiguous();
  return {.width = int(bytes.size(1)),
          .height = int(bytes.size(0)),
          .channels = int(bytes.size(2)),
          .bytes = {bytes.data_ptr<std::uint8_t>(), bytes.data_ptr<std::uint8_t>() + bytes.numel()}};
}

int draw_sheet(const GenerateFlags& flags, const train::PreparedJob& job) {
  const std::int64_t count = flags.count > 0 ? flags.count : 64;
  const torch::Tensor images = draw_images(flags, job, count);
  if (images.size(1) != 1 && images.size(1) != 3)
    throw Error(ErrorCode::kBadInput,
                fmt::format("a sheet of samples wants images of 1 or 3 channels, this model draws {}",
                            images.size(1)));
  std::vector<report::Picture> pictures;
  for (std::int64_t i = 0; i < count; ++i) pictures.push_back(picture_of(images[i]));
  const fs::path out = flags.out.empty() ? fs::path(flags.run_dir) / "samples.png" : fs::path(flags.out);
  report::write_png(out, report::contact_sheet(pictures, kSheetColumns));
  fmt::print("{} images in {}\n", count, out.string());
  return 0;
}

int generate(const GenerateFlags& flags, const Invocation& invocation) {
  pin_or_restart(invocation);
  torch::set_num_threads(1);
  const train::PreparedJob job = trained_job(flags.run_dir);
  const std::string task = train::task_name(job.config, job.data.train->spec());
  if (task == "gan") return draw_sheet(flags, job);
  if (task == "classification" && job.shape.tokens) return continue_text(flags, job);
  throw Error(ErrorCode::kBadInput,
              fmt::format("model '{}' of task '{}' generates nothing; gpt, lstm and gru continue text, dcgan "
                          "draws images",
                          job.config.model.name, task));
}

}  // namespace

void add_generate(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = app.add_subcommand("generate", "continue a text, or draw images, with a trained model");
  command->add_option("run", flags->run_dir, "run folder")->required();
  command->add_option("--prompt", flags->prompt, "text to continue, for models of text or of bytes");
  command->add_option("--tokens", flags->tokens, "tokens to continue: 1,2,3")->delimiter(',');
  command->add_option("--count", flags->count, "tokens to add (200), or images to draw (64)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--temperature", flags->sample.temperature, "0: always the likeliest token")
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--top-k", flags->sample.top_k, "choose among so many of the likeliest tokens; 0: all")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seed", flags->sample.seed, "another one gives another sample");
  command->add_option("--out", flags->out, "where the sheet of images goes; RUN/samples.png");
  command->add_flag("--json", flags->json, "tokens as JSON");
  command->footer(
      "Examples:\n  distbelief generate runs/shakespeare --prompt 'ROMEO:' --temperature 0.8 --top-k 40\n"
      "  distbelief generate runs/dcgan --out sheet.png");
  command->callback(
      [=, &invocation, &run] { run = [=, &invocation] { return generate(*flags, invocation); }; });
}

}  // namespace distbelief::cli
