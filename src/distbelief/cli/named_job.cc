#include "distbelief/cli/named_job.h"

#include <fmt/format.h>

#include "distbelief/cli/job_check.h"
#include "distbelief/data/registry.h"
#include "distbelief/model/registry.h"

namespace distbelief::cli {

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

train::PreparedJob prepare_placed(const Job& job, const data::KnownSet* known) {
  try {
    return train::prepare_job(job.config, known != nullptr ? data::open_data_set(job.config.data, *known)
                                                           : data::open_data_set(job.config.data));
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
