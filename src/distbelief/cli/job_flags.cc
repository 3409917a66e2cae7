#include "distbelief/cli/job_flags.h"

#include <fmt/format.h>

#include <cstdlib>

#include "distbelief/cli/job_check.h"
#include "distbelief/data/registry.h"
#include "distbelief/model/registry.h"

namespace distbelief::cli {

void JobFlags::add_to(CLI::App& command, bool job_required) {
  auto* file = command.add_option("job", job_file, "job file (TOML); without one: a CNN on Fashion-MNIST");
  if (job_required) file->required();
  command.add_option("--set", sets, "override a key of the job file: --set train.lr=0.1 (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--data-dir", data_dir, "where the data is; short for --set data.path=DIR");
}

Job JobFlags::read() const {
  Job job = job_file.empty() ? Job{default_job(), {}} : read_job_file(job_file);
  for (const std::string& assignment : sets) apply_override(job, assignment);
  if (!data_dir.empty()) job.config.data.path = data_dir;
  trust_environment(job.config.data);
  return job;
}

void trust_environment(DataConfig& data) {
  const char* file = std::getenv(kTrustVariable);
  if (file != nullptr && data.name == "packed" && data.path.starts_with("https://"))
    data.options.try_emplace("ca_file", std::string(file));
}

void check_named(const Job& job) {
  try {
    check_options(job, "model", "model '" + job.config.model.name + "'",
                  model::find_model(job.config.model.name).options);
  } catch (const Error& error) {
    if (job.places.contains("model.name") && error.message().find("unknown model") != std::string::npos)
      rethrow_at(job, "model.name", error);
    throw;
  }
  for (const data::DataSetEntry& entry : data::data_sets())
    if (entry.name == job.config.data.name)
      check_options(job, "data", "data set '" + entry.name + "'", entry.options);
}

train::PreparedJob prepare_placed(const Job& job) {
  try {
    return train::prepare_job(job.config);
  } catch (const Error& error) {
    for (const auto& [key, place] : job.places)
      if (error.message().starts_with(key + " ")) rethrow_at(job, key, error);
    const std::string section = error.message().starts_with("model '") ? "model." : "data.";
    for (const auto& [key, place] : job.places)
      if (key.starts_with(section) &&
          error.message().find(fmt::format("option '{}'", key.substr(section.size()))) != std::string::npos)
        rethrow_at(job, key, error);
    throw;
  }
}

}  // namespace distbelief::cli
