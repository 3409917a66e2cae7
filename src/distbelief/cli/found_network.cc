#include "distbelief/cli/found_network.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cstring>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"
#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/cli/named_job.h"
#include "distbelief/job/job_file.h"
#include "distbelief/model/fbnet_search.h"
#include "distbelief/model/registry.h"
#include "distbelief/run/prepared_job.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSearchModel = "fbnet_search";

bool is_search(const Config& config) { return config.model.name == kSearchModel; }

OptionMap search_options(const Config& config) {
  return resolve_options("model 'fbnet_search'", model::fbnet_search_options(), config.model.options);
}

bool has_latencies(const Config& config) {
  return !option<std::vector<std::int64_t>>(search_options(config), "latencies").empty();
}

bool is_to_be_measured(const Config& config) {
  return is_search(config) && !has_latencies(config) &&
         option<std::string>(search_options(config), "costs") == model::kMeasuredCosts;
}

std::vector<model::FbnetLayer> searched_layers(const Config& config) {
  return model::fbnet_layers(kSearchModel, search_options(config), run::prepare_blueprint(config).shape);
}

std::vector<float> trained_theta(const fs::path& run_dir) {
  const checkpoint::SafetensorsFile file(run_dir / "model.safetensors");
  const checkpoint::TensorView& view = file.tensor("choices.theta");
  std::vector<float> theta(std::size_t(element_count(view.shape)));
  std::memcpy(theta.data(), view.data, view.byte_count());
  return theta;
}

// The run's job with the found network in place of the search.
Config job_of_found(Config config, const std::vector<model::Candidate>& architecture) {
  OptionMap frame;
  const OptionMap options = search_options(config);
  for (const OptionSpec& spec : model::fbnet_frame_options()) frame[spec.name] = options.at(spec.name);
  frame["architecture"] = model::architecture_text(architecture);
  config.model = {.name = "fbnet", .options = std::move(frame)};
  config.train.task = "auto";
  return config;
}

}  // namespace

void measure_if_searching(job::Job& job) {
  Config& config = job.config;
  if (!is_to_be_measured(config)) return;
  pack_cache(job);
  torch::set_num_threads(1);
  config.model.options["latencies"] = model::measure_latencies(searched_layers(config));
}

void refuse_search_without_latencies(const Config& config) {
  if (!is_to_be_measured(config)) return;
  throw Error(
      ErrorCode::kBadInput,
      "model fbnet_search with model.costs = \"measured\" and without model.latencies measures them once, "
      "which cannot be under mpirun or srun; let distbelief train start the workers, or take them from the "
      "job.toml of such a run");
}

void keep_found(const fs::path& run_dir, const Config& config) {
  if (!is_search(config) || !fs::exists(run_dir / "model.safetensors")) return;
  const std::vector<model::FbnetLayer> layers = searched_layers(config);
  const std::vector<model::Candidate> found = model::likeliest_architecture(trained_theta(run_dir), layers);
  const fs::path path = run_dir / "found.toml";
  write_durably(path, job::to_toml(job_of_found(config, found)));
  const model::LatencyTable table = model::search_costs(search_options(config), layers).value();
  // Nanoseconds are shown in us, multiply-adds in thousands.
  fmt::print(
      "found: {}\n{:.1f} {} an image of {:.1f} that the slowest takes; to train it: distbelief train {}\n",
      model::architecture_text(found), 1e-3 * model::latency_of(found, layers, table),
      has_latencies(config) ? "us" : "thousand multiply-adds", 1e-3 * table.most(), path.string());
}

}  // namespace distbelief::cli
