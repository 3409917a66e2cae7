#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/run_model.h"
#include "distbelief/model/device.h"
#include "distbelief/model/registry.h"
#include "distbelief/model/torchscript.h"
#include "distbelief/run/state_dict.h"
#include "distbelief/run/state_file.h"
#include "distbelief/tasks/task.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::TensorView;

struct ExportFlags {
  std::string run_dir;
  std::string out;
  std::string format;
  std::string data_dir;
  bool best = false;
};

// The model's tensors under their own names, without state that only training uses.
std::vector<TensorView> tensors_of_model(const RunWeights& weights, const model::ModelEntry& entry) {
  std::vector<TensorView> views;
  for (TensorView view : weights.tensors().all()) {
    if (!view.name.starts_with(weights.prefix)) continue;
    view.name.erase(0, weights.prefix.size());
    if (model::is_training_state(entry, view.name)) continue;
    views.push_back(std::move(view));
  }
  return views;
}

void export_tensors(const ExportFlags& flags) {
  const RunWeights weights = weights_of_run(flags.run_dir, {.data_dir = {}, .best = flags.best});
  const Config config = config_of_run(flags.run_dir, {});
  const std::vector<TensorView> tensors = tensors_of_model(weights, model::find_model(config.model.name));
  if (flags.format == "state_dict") return run::write_state_dict(flags.out, tensors);
  checkpoint::write_safetensors(flags.out, tensors, {{"format", "pt"}, {"model", config.model.name}});
}

void require_no_tables(const run::PreparedJob& job) {
  if (tasks::make_task(job.config, job.data.train->spec())->tables().empty()) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("model '{}' reads rows of tables, which are no part of a network that TorchScript "
                          "could hold; export it as safetensors or state_dict",
                          job.config.model.name));
}

void export_script(const ExportFlags& flags) {
  torch::set_num_threads(1);
  const RunModel run =
      load_run(flags.run_dir, {.data_dir = flags.data_dir, .best = flags.best, .data = RunData::kWhenAsked});
  require_no_tables(run.job);
  model::Network& network = *run.job.network;
  model::TraceOptions options = model::trace_options(run.job.config.model, run.job.shape);
  options.example = model::on_device(options.example, network.device());
  torch::jit::Module script = model::to_script(network, options);
  const fs::path temporary = flags.out + ".tmp-" + std::to_string(getpid());
  std::error_code ignored;
  try {
    script.save(temporary.string());
    fs::rename(temporary, flags.out);
  } catch (const std::exception& error) {
    fs::remove(temporary, ignored);
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot write {}: does its folder exist, and is there room?", flags.out));
  }
}

int export_run(const ExportFlags& flags) {
  if (flags.format == "torchscript")
    export_script(flags);
  else
    export_tensors(flags);
  fmt::print("{}\n", flags.out);
  return 0;
}

}  // namespace

void add_export(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command =
      app.add_subcommand("export", "write a trained model to a file for other programs")->group(kUseGroup);
  command->add_option("run", flags->run_dir, "run folder")->required();
  command->add_option("out", flags->out, "file to write")->required();
  command->add_option("--to", flags->format, "format of the file: torchscript, safetensors or state_dict")
      ->required()
      ->check(CLI::IsMember({"torchscript", "safetensors", "state_dict"}));
  command->add_flag("--best", flags->best, "use the best checkpoint instead of the last weights");
  command->add_option("--data-dir", flags->data_dir, "path of the data, if it has moved since the run");
  command->footer(
      "Examples:\n"
      "  distbelief export runs/my-run --to torchscript net.pt       torch.jit.load(\"net.pt\")\n"
      "  distbelief export runs/my-run --to state_dict net.pth       "
      "net.load_state_dict(torch.load(\"net.pth\"))\n"
      "  distbelief export runs/my-run --to safetensors net.safetensors --best");
  command->callback([=, &run] { run = [=] { return export_run(*flags); }; });
}

}  // namespace distbelief::cli
