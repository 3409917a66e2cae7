#include <fmt/format.h>
#include <torch/torch.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/run_folder.h"
#include "distbelief/cli/run_model.h"
#include "distbelief/report/page.h"
#include "distbelief/report/summary.h"
#include "distbelief/report/tensorboard.h"
#include "distbelief/run/clusters.h"
#include "distbelief/run/generated.h"
#include "distbelief/run/predictions.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

struct ReportFlags {
  std::string run_dir;
  std::string data_dir;
  bool score = false;
  bool tensorboard = false;
};

// Scores all test samples; the run itself took a sample of them.
void score(const ReportFlags& flags) {
  torch::set_num_threads(1);
  const RunModel run = load_run(flags.run_dir, {.data_dir = flags.data_dir});
  model::Network& network = *run.job.network;
  const nlohmann::json found = run::score_predictions(
      run.job, network, {.samples = run.job.data.test->size(), .time = std::chrono::hours(24)});
  if (!found.is_null())
    return report::write_json_atomically(fs::path(flags.run_dir) / "predictions.json", found);
  bool kept = run::keep_clusters(run.job, network, flags.run_dir, std::chrono::hours(24));
  for (const auto keep : {run::keep_reconstructions, run::keep_masks, run::keep_text})
    kept = keep(run.job, network, flags.run_dir) || kept;
  if (kept) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("model '{}' neither gives one class per sample, nor makes images of images, nor "
                          "continues text; leave --score out",
                          run.job.config.model.name));
}

int make_report(const ReportFlags& flags) {
  const fs::path run_dir = flags.run_dir;
  require_run_dir(run_dir);
  if (flags.score) score(flags);
  if (flags.tensorboard) report::TensorBoardFile(run_dir).read_new();
  report::RunHistory history(run_dir);
  history.read_new();
  report::write_page(run_dir, history, 0);
  fmt::print("{}\n", (run_dir / "report.html").string());
  return 0;
}

}  // namespace

void add_report(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app.add_subcommand("report", "write the report.html of a run again")->group(kUseGroup);
  command->add_option("run", flags->run_dir, "run folder")->required();
  command->add_flag("--score", flags->score, "first predict all test samples with the model");
  command->add_flag("--tensorboard", flags->tensorboard, "also write TensorBoard's event files");
  command->add_option("--data-dir", flags->data_dir, "path of the data, if it has moved since the run");
  command->footer(
      "Examples:\n"
      "  distbelief report runs/my-run\n"
      "  distbelief report runs/my-run --score --tensorboard");
  command->callback([=, &run] { run = [=] { return make_report(*flags); }; });
}

}  // namespace distbelief::cli
