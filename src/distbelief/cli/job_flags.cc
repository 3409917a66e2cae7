#include "distbelief/cli/job_flags.h"

#include <cstdlib>

namespace distbelief::cli {

void JobFlags::add_to(CLI::App& command, bool job_required) {
  auto* file = command.add_option("job", job_file, "job file (TOML); default: a CNN on Fashion-MNIST");
  if (job_required) file->required();
  command.add_option("--set", sets, "override a key of the job file: --set train.lr=0.1 (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--data-dir", data_dir, "path of the data; same as --set data.path=DIR");
}

job::Job JobFlags::read() const {
  job::Job job = job_file.empty() ? job::Job{job::default_job(), {}} : job::read_job_file(job_file);
  for (const std::string& assignment : sets) job::apply_override(job, assignment);
  if (!data_dir.empty()) job.config.data.path = data_dir;
  trust_environment(job.config.data);
  return job;
}

void trust_environment(DataConfig& data) {
  const char* file = std::getenv(kTrustVariable);
  if (file != nullptr && data.name == "packed" && data.path.starts_with("https://"))
    data.options.try_emplace("ca_file", std::string(file));
}

}  // namespace distbelief::cli
