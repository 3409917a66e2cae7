#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/run_model.h"
#include "distbelief/cluster/launch.h"
#include "distbelief/comm/self_communicator.h"
#include "distbelief/run/prepared_job.h"
#include "distbelief/run/state_file.h"
#include "distbelief/tasks/evaluation.h"

namespace distbelief::cli {
namespace {

struct EvalFlags {
  std::string run_dir;
  std::string data_dir;
  std::vector<std::string> metrics;  // empty: all
  bool best = false;
  bool json = false;
};

// Keeps only the requested metrics, in the requested order.
void keep_asked(const std::vector<std::string>& asked, tasks::Evaluation& result) {
  if (asked.empty()) return;
  std::vector<tasks::Metric> kept;
  for (const std::string& name : asked)
    if (const double* value = tasks::find_metric(result.metrics, name)) kept.push_back({name, *value});
  result.metrics = std::move(kept);
}

void require_metrics(const std::vector<std::string>& asked, const tasks::Task& task,
                     const std::string& task_name) {
  const std::vector<std::string> known = tasks::metric_names(task);
  for (const std::string& name : asked)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(ErrorCode::kBadInput, fmt::format("task '{}' has no metric '{}'; it has {}", task_name,
                                                    name, fmt::join(known, ", ")));
}

nlohmann::json to_json(const tasks::Evaluation& result, const std::string& sha) {
  nlohmann::json answer{{"test_loss", result.loss}, {"items", result.items}, {"weights_sha256", sha}};
  for (const tasks::Metric& metric : result.metrics) {
    answer["test_metrics"][metric.name] = metric.value;
    if (metric.name == "accuracy") answer["test_accuracy"] = metric.value;
  }
  return answer;
}

std::string to_text(const tasks::Evaluation& result) {
  std::string text;
  if (const double* accuracy = tasks::find_metric(result.metrics, "accuracy"))
    text = fmt::format("test accuracy {:.2f} %, ", 100 * *accuracy);
  text += fmt::format("test loss {:.4f}", result.loss);
  for (const tasks::Metric& metric : result.metrics)
    if (metric.name != "accuracy") text += fmt::format(", {} {:.4f}", metric.name, metric.value);
  return text;
}

int eval(const EvalFlags& flags, const Invocation& invocation) {
  if (cluster::launcher_place().rank != 0) return 0;  // under mpirun one answer suffices
  pin_or_restart(invocation);
  torch::set_num_threads(1);
  const run::PreparedJob job = load_run(flags.run_dir, {.data_dir = flags.data_dir, .best = flags.best}).job;
  const Config& config = job.config;
  const data::BatchMaker maker(*job.data.test,
                               {.seed = config.train.seed, .normalize = config.data.normalize});
  comm::SelfCommunicator alone;
  const std::unique_ptr<run::SavedTables> rows = rows_of_run(flags.run_dir, job);
  const auto task = tasks::make_task(config, job.data.test->spec(), nullptr, rows.get());
  require_metrics(flags.metrics, *task, tasks::task_name(config, job.data.test->spec()));
  data::Batch batch;
  const auto read = [&](data::Range range) -> const data::Batch& {
    maker.eval_batch(range, batch);
    return batch;
  };
  tasks::Evaluation result = tasks::evaluate(*job.network, *task, read, job.data.test->size(), alone);
  keep_asked(flags.metrics, result);
  const std::string sha = run::weights_sha256(*job.network);
  if (flags.json)
    fmt::print("{}\n", to_json(result, sha).dump());
  else
    fmt::print("{}, over {} items\nweights {}\n", to_text(result), result.items, sha);
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* command = app.add_subcommand("eval", "score a trained model on its test set")->group(kUseGroup);
  command->add_option("run", flags->run_dir, "run folder")->required();
  command->add_option("--data-dir", flags->data_dir, "path of the data, if it has moved since the run");
  command->add_option("--metric", flags->metrics, "print only this metric (repeatable; default: all metrics)")
      ->take_all()
      ->allow_extra_args(false);
  command->add_flag("--best", flags->best, "use the best checkpoint instead of the last weights");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Examples:\n"
      "  distbelief eval runs/my-run --best\n"
      "  distbelief eval runs/my-run --metric f1 --metric auc");
  command->callback([=, &invocation, &run] { run = [=, &invocation] { return eval(*flags, invocation); }; });
}

}  // namespace distbelief::cli
