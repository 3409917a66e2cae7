#include <fmt/format.h>
#include <torch/torch.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/checkpoint/store.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/job_file.h"
#include "distbelief/cluster/launch.h"
#include "distbelief/comm/self_communicator.h"
#include "distbelief/train/evaluation.h"
#include "distbelief/train/job.h"
#include "distbelief/train/state_file.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

struct EvalFlags {
  std::string run_dir;
  std::string data_dir;
  bool best = false;
  bool json = false;
};

// A model file carries the hash of its weights: one that was changed since is not scored.
void load_verified(torch::nn::Module& network, const fs::path& path) {
  train::load_model(network, path);
  const checkpoint::Metadata metadata = checkpoint::SafetensorsFile(path).metadata();
  const auto wanted = metadata.find("weights_sha256");
  if (wanted == metadata.end() || wanted->second == train::weights_sha256(network)) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("{} is damaged: its weights are not those that were saved; the checkpoints may help: "
                  "distbelief eval {} --best",
                  path.string(), path.parent_path().string()));
}

void load_weights(torch::nn::Module& network, const EvalFlags& flags) {
  const fs::path run_dir = flags.run_dir;
  if (!flags.best && fs::exists(run_dir / "model.safetensors"))
    return load_verified(network, run_dir / "model.safetensors");
  const checkpoint::Store store(run_dir / "checkpoints");
  const auto best = flags.best ? store.best() : std::nullopt;
  if (flags.best && !best)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} has no best checkpoint: no validation has marked one; without --best its last "
                    "weights are scored",
                    flags.run_dir));
  const auto loaded =
      best ? std::optional(store.load(*best))
           : store.load_latest([](const checkpoint::Entry&, const Error& error) {
               fmt::print(stderr, "distbelief: passed over a damaged checkpoint: {}\n", error.what());
             });
  if (!loaded)
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} has neither model.safetensors nor a checkpoint", flags.run_dir));
  train::load_tensors(network, loaded->tensors, "model.");
}

nlohmann::json to_json(const train::Evaluation& result, const std::string& sha) {
  nlohmann::json answer{{"test_loss", result.loss}, {"items", result.items}, {"weights_sha256", sha}};
  for (const train::Metric& metric : result.metrics) {
    answer["test_metrics"][metric.name] = metric.value;
    if (metric.name == "accuracy") answer["test_accuracy"] = metric.value;
  }
  return answer;
}

std::string to_text(const train::Evaluation& result) {
  std::string text;
  if (const double* accuracy = train::find_metric(result.metrics, "accuracy"))
    text = fmt::format("test accuracy {:.2f} %, ", 100 * *accuracy);
  text += fmt::format("test loss {:.4f}", result.loss);
  for (const train::Metric& metric : result.metrics)
    if (metric.name != "accuracy") text += fmt::format(", {} {:.4f}", metric.name, metric.value);
  return text;
}

int eval(const EvalFlags& flags, const Invocation& invocation) {
  if (cluster::launcher_place().rank != 0) return 0;  // under mpirun one answer is enough
  pin_or_restart(invocation);
  torch::set_num_threads(1);
  const fs::path job_file = fs::path(flags.run_dir) / "job.toml";
  if (!fs::exists(job_file))
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is not a run folder: it has no job.toml", flags.run_dir));
  Config config = load_job_file(job_file);
  if (!flags.data_dir.empty()) config.data.path = flags.data_dir;
  config.parallel.pipeline = config.parallel.tensor = 1;  // one process holds all of it
  config.parallel.zero = 1;
  config.parallel.zero_inside_host = config.parallel.split_features = false;
  const train::PreparedJob job = train::prepare_job(config);
  load_weights(*job.network, flags);
  const data::BatchMaker maker(*job.data.test,
                               {.seed = config.train.seed, .normalize = config.data.normalize});
  comm::SelfCommunicator alone;
  const train::Evaluation result = train::evaluate(
      *job.network, *train::make_task(config, job.data.test->spec()), maker, job.data.test->size(), alone);
  const std::string sha = train::weights_sha256(*job.network);
  if (flags.json)
    fmt::print("{}\n", to_json(result, sha).dump());
  else
    fmt::print("{}, over {} items\nweights {}\n", to_text(result), result.items, sha);
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* command = app.add_subcommand("eval", "score a trained model on its test set");
  command->add_option("run", flags->run_dir, "run folder")->required();
  command->add_option("--data-dir", flags->data_dir, "where the data is, if not where the run had it");
  command->add_flag("--best", flags->best, "the best checkpoint instead of the last weights");
  command->add_flag("--json", flags->json, "answer as JSON");
  command->footer("Example:\n  distbelief eval runs/my-run --best");
  command->callback([=, &invocation, &run] { run = [=, &invocation] { return eval(*flags, invocation); }; });
}

}  // namespace distbelief::cli
