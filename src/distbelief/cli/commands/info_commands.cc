#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/cli/job_flags.h"
#include "distbelief/cli/named_job.h"
#include "distbelief/cli/start_check.h"
#include "distbelief/cli/worker_places.h"
#include "distbelief/compute/replica.h"
#include "distbelief/data/registry.h"
#include "distbelief/job/job_check.h"
#include "distbelief/mesh/lane_runner.h"
#include "distbelief/model/describe.h"
#include "distbelief/model/registry.h"
#include "distbelief/planner/memory_need.h"
#include "distbelief/report/memory.h"

namespace distbelief::cli {
namespace {

struct CheckFlags {
  JobFlags job;
  PlaceFlags places;
  bool json = false;
};

int check(const CheckFlags& flags) {
  job::Job job = flags.job.read();
  require_certificates(job.config);
  // Does not wait for hosts that come and go (elastic.hostfile, elastic.discovery).
  const bool are_named = !flags.places.hosts.empty() || !flags.places.hostfile.empty();
  if (flags.places.workers > 0) job.config.parallel.workers = flags.places.workers;
  const std::vector<cluster::HostSlots> hosts =
      are_named ? place_workers(flags.places, job.config) : std::vector<cluster::HostSlots>{};
  if (was_interrupted()) return 130;
  job::validate(job);
  check_named(job);
  const int workers = int(job.config.parallel.workers);
  run::resolve_for_workers(job.config, workers);
  // With parameter servers each replica is a world of its own.
  const bool are_apart = has_servers(job.config.parallel);
  job::with_places(job, [&] {
    run::require_mesh(job.config, are_apart ? int(workers_per_replica(job.config.parallel)) : workers);
  });
  const report::MemoryBound bound;
  const run::PreparedJob prepared = prepare_placed(job);
  const auto parameters = outline_of(prepared).parameters;
  const std::vector<comm::SharedMemoryNeed> rooms = rooms_of(prepared, hosts);
  const std::size_t shared = std::ranges::max(rooms, {}, &comm::SharedMemoryNeed::bytes).bytes;
  if (hosts.empty()) comm::require_shared_memory(rooms[0]);
  planner::require_state_room(prepared);
  advise(job.config, prepared.total_steps());
  std::int64_t count = 0;
  for (const auto& parameter : parameters) count += element_count(parameter.shape);
  if (flags.json) {
    fmt::print("{}\n", nlohmann::json{{"model", job.config.model.name},
                                      {"parameters", count},
                                      {"train_samples", prepared.data.train->size()},
                                      {"test_samples", prepared.data.test->size()},
                                      {"steps_per_epoch", prepared.steps_per_epoch()},
                                      {"steps", prepared.total_steps()},
                                      {"workers", workers},
                                      {"lanes", job.config.parallel.lanes},
                                      {"shared_memory_bytes", shared}}
                           .dump());
    return 0;
  }
  fmt::print(
      "the job is sound\n"
      "  model          {} with {} trainable parameters\n"
      "  data           {}: {} to train on, {} to test on\n"
      "  steps          {} per epoch, {} in all, batches of {}\n"
      "  {:<14} {} with {} lane{}, {} thread{} each\n"
      "  shared memory  {:.1f} MB{}\n",
      job.config.model.name, count, job.config.data.name, prepared.data.train->size(),
      prepared.data.test->size(), prepared.steps_per_epoch(), prepared.total_steps(),
      job.config.train.batch_size, are_apart ? "replicas" : "workers", workers, job.config.parallel.lanes,
      job.config.parallel.lanes == 1 ? "" : "s", job.config.parallel.threads,
      job.config.parallel.threads == 1 ? "" : "s", double(shared) / 1e6,
      hosts.empty() ? ", all workers on this host" : " at most on each host; they were not asked for it");
  return 0;
}

struct ModelsFlags {
  std::string name;
  std::vector<std::string> sets;
  std::vector<std::int64_t> input;
  std::int64_t classes = 0;
  bool json = false;
};

void list_options(const std::vector<OptionSpec>& options) {
  for (const OptionSpec& option : options)
    fmt::print("      {:<12} {} (default {})\n", option.name, option.help,
               distbelief::to_string(option.default_value));
}

int list_models(bool json) {
  nlohmann::json all = nlohmann::json::array();
  for (const model::ModelEntry& entry : model::models()) {
    all.push_back({{"name", entry.name}, {"description", entry.description}});
    if (json) continue;
    fmt::print("{:<10} {}\n", entry.name, entry.description);
    list_options(entry.options);
  }
  if (json)
    fmt::print("{}\n", all.dump());
  else
    fmt::print("\nlayer by layer: distbelief models NAME\n");
  return 0;
}

nlohmann::json to_json(const model::Description& description) {
  nlohmann::json layers = nlohmann::json::array();
  for (const model::LayerRow& row : description.layers)
    layers.push_back({{"name", row.name},
                      {"kind", row.kind},
                      {"output", row.output},
                      {"parameters", row.parameters},
                      {"multiply_adds", row.multiply_adds},
                      {"activation_bytes", row.activation_bytes}});
  return {{"model", description.model},
          {"input", description.input},
          {"parameters", description.parameters},
          {"multiply_adds", description.multiply_adds},
          {"activation_bytes", description.activation_bytes},
          {"layers", layers}};
}

// A network from a file has no known layers until the file is named.
int explain_torchscript(const model::ModelEntry& entry, bool json) {
  const char* how =
      "The layers are those of the file: name it, and the shape of what it takes, to see its parameters:\n"
      "  distbelief models torchscript --set model.file=net.pt --input 1,28,28\n"
      "A network is written by torch.jit.script(net).save(\"net.pt\") in Python (docs/howto/own_model.md);\n"
      "examples/jobs/torchscript.toml trains one. Its code runs with your rights.\n";
  if (json) {
    nlohmann::json options = nlohmann::json::array();
    for (const OptionSpec& option : entry.options)
      options.push_back({{"name", option.name}, {"description", option.help}});
    fmt::print("{}\n",
               nlohmann::json{{"model", entry.name}, {"description", entry.description}, {"options", options}}
                   .dump());
    return 0;
  }
  fmt::print("{:<10} {}\n", entry.name, entry.description);
  list_options(entry.options);
  fmt::print("\n{}", how);
  return 0;
}

int models(const ModelsFlags& flags) {
  if (flags.name.empty()) return list_models(flags.json);
  job::Job job{job::default_job(), {}};
  job.config.model = {flags.name, {}};
  for (const std::string& assignment : flags.sets) job::apply_override(job, assignment);
  require_named(job, flags.name, "the model's name");
  const model::ModelEntry& entry = model::find_model(flags.name);
  job::check_options(job, "model", "model '" + flags.name + "'", entry.options);
  if (entry.name == "torchscript" && !job.config.model.options.contains("file"))
    return explain_torchscript(entry, flags.json);
  model::DataShape shape = entry.typical;
  if (!flags.input.empty()) shape.input = flags.input;
  if (flags.classes > 0) shape.classes = flags.classes;
  const model::Description description = model::describe_model(job.config.model, shape);
  fmt::print("{}", flags.json ? to_json(description).dump() + "\n" : model::render(description));
  return 0;
}

struct DataSetsFlags {
  std::string name;
  bool json = false;
};

// Whether the data set is available, or else how to get it.
std::string state_of(const data::DataSetEntry& entry) {
  DataConfig config;
  config.name = entry.name;
  try {
    const data::DataSet set = data::open_data_set(config);
    return fmt::format("ready: {} to train on, {} to test on", set.train->size(), set.test->size());
  } catch (const Error& error) {
    return error.message();
  }
}

int datasets(const DataSetsFlags& flags) {
  const std::vector<data::DataSetEntry> shown =
      flags.name.empty() ? data::data_sets()
                         : std::vector<data::DataSetEntry>{data::find_data_set(flags.name)};
  nlohmann::json all = nlohmann::json::array();
  for (const data::DataSetEntry& entry : shown) {
    const std::string state = state_of(entry);
    all.push_back({{"name", entry.name}, {"description", entry.description}, {"state", state}});
    if (flags.json) continue;
    fmt::print("{:<17} {}\n      {}\n", entry.name, entry.description, state);
    list_options(entry.options);
  }
  if (flags.json) fmt::print("{}\n", all.dump());
  return 0;
}

}  // namespace

void add_check(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<CheckFlags>();
  CLI::App* command = app.add_subcommand("check", "check a job file, its data and its model; start nothing")
                          ->group(kStartGroup);
  flags->job.add_to(*command, false);
  flags->places.add_to(*command);
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Examples:\n  distbelief check examples/jobs/fashion_mnist_cnn.toml --workers 4\n"
      "  distbelief check job.toml --hosts a:8,b:8");
  command->callback([=, &run] { run = [=] { return check(*flags); }; });
}

void add_models(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<ModelsFlags>();
  CLI::App* command =
      app.add_subcommand("models", "list the models, or describe one layer by layer")->group(kStartGroup);
  command->add_option("name", flags->name, "model to describe");
  command
      ->add_option("--set", flags->sets,
                   "override an option of the model: --set model.hidden=[512,512] (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--input", flags->input, "input shape: 3,224,224")->delimiter(',');
  command->add_option("--classes", flags->classes, "number of classes, or size of the vocabulary");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Examples:\n  distbelief models\n  distbelief models resnet152\n"
      "  distbelief models resnet18 --input 3,32,32 --classes 10");
  command->callback([=, &run] { run = [=] { return models(*flags); }; });
}

void add_datasets(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<DataSetsFlags>();
  CLI::App* command =
      app.add_subcommand("datasets",
                         "list the data sets and whether each is on this machine, or describe one")
          ->group(kStartGroup);
  command->add_option("name", flags->name, "data set to describe");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer("Examples:\n  distbelief datasets\n  distbelief datasets cifar100");
  command->callback([=, &run] { run = [=] { return datasets(*flags); }; });
}

}  // namespace distbelief::cli
