#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/run_model.h"
#include "distbelief/model/device.h"
#include "distbelief/model/torchscript.h"
#include "distbelief/train/state_dict.h"
#include "distbelief/train/state_file.h"

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

// The model's tensors under their own names.
std::vector<TensorView> tensors_of_model(const RunWeights& weights) {
  std::vector<TensorView> views;
  for (TensorView view : weights.tensors().all()) {
    if (!view.name.starts_with(weights.prefix)) continue;
    view.name.erase(0, weights.prefix.size());
    views.push_back(std::move(view));
  }
  return views;
}

void export_tensors(const ExportFlags& flags) {
  const RunWeights weights = weights_of_run(flags.run_dir, {.data_dir = {}, .best = flags.best});
  const std::vector<TensorView> tensors = tensors_of_model(weights);
  if (flags.format == "state_dict") return train::write_state_dict(flags.out, tensors);
  const Config config = config_of_run(flags.run_dir, {});
  checkpoint::write_safetensors(flags.out, tensors, {{"format", "pt"}, {"model", config.model.name}});
}

// A batch as the network gets it.
torch::Tensor example_of(const model::DataShape& shape) {
  Shape batch = shape.input;
  batch.insert(batch.begin(), 2);
  return shape.tokens ? torch::zeros(batch, torch::kInt64) : torch::rand(batch);
}

void export_script(const ExportFlags& flags) {
  torch::set_num_threads(1);
  const RunModel run = load_run(flags.run_dir, {.data_dir = flags.data_dir, .best = flags.best});
  model::Network& network = *run.job.network;
  torch::jit::Module script =
      model::to_script(network, model::on_device(example_of(run.job.shape), network.device()));
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
  CLI::App* command = app.add_subcommand("export", "write a trained model for other programs");
  command->add_option("run", flags->run_dir, "run folder")->required();
  command->add_option("out", flags->out, "file to write")->required();
  command->add_option("--to", flags->format, "torchscript, safetensors or state_dict")
      ->required()
      ->check(CLI::IsMember({"torchscript", "safetensors", "state_dict"}));
  command->add_flag("--best", flags->best, "the best checkpoint instead of the last weights");
  command->add_option("--data-dir", flags->data_dir, "where the data is, if not where the run had it");
  command->footer(
      "Examples:\n"
      "  distbelief export runs/my-run --to torchscript net.pt       torch.jit.load(\"net.pt\")\n"
      "  distbelief export runs/my-run --to state_dict net.pth       "
      "net.load_state_dict(torch.load(\"net.pth\"))\n"
      "  distbelief export runs/my-run --to safetensors net.safetensors --best");
  command->callback([=, &run] { run = [=] { return export_run(*flags); }; });
}

}  // namespace distbelief::cli
