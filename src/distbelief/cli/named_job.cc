#include "distbelief/cli/named_job.h"

#include <fmt/format.h>

#include "distbelief/cli/job_check.h"
#include "distbelief/data/registry.h"
#include "distbelief/model/registry.h"

namespace distbelief::cli {

namespace {

// What `find` gives; a name that nobody has is an error with the place of `key`.
template <typename Find>
const auto& found_at(const Job& job, const std::string& key, const Find& find) {
  try {
    return find();
  } catch (const Error& error) {
    if (job.places.contains(key)) rethrow_at(job, key, error);
    throw;
  }
}

}  // namespace

void check_named(const Job& job) {
  const model::ModelEntry& model = found_at(
      job, "model.name", [&]() -> const auto& { return model::find_model(job.config.model.name); });
  check_options(job, "model", "model '" + model.name + "'", model.options);
  const data::DataSetEntry& set = found_at(
      job, "data.name", [&]() -> const auto& { return data::find_data_set(job.config.data.name); });
  check_options(job, "data", "data set '" + set.name + "'", set.options);
}

void require_named(const Job& job, const std::string& model, const std::string& flag) {
  if (job.config.model.name == model) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("{} says '{}', --set model.name says '{}'; leave the latter out", flag, model,
                          job.config.model.name));
}

train::PreparedJob prepare_placed(const Job& job, const data::KnownSet* known) {
  try {
    return train::prepare_job(job.config, known != nullptr ? data::open_data_set(job.config.data, *known)
                                                           : data::open_data_set(job.config.data));
  } catch (const Error& error) {
    for (const auto& [key, place] : job.places)
      if (error.message().starts_with(key + " ")) rethrow_at(job, key, error);
    // "no activation is named 'x'", "no stem of resnet18 is named 'x'"
    for (const auto& [key, place] : job.places)
      if (key.starts_with("model.") && error.message().starts_with("no " + key.substr(6) + " "))
        rethrow_at(job, key, error);
    const std::string section = error.message().starts_with("model '") ? "model." : "data.";
    for (const auto& [key, place] : job.places)
      if (key.starts_with(section) &&
          error.message().find(fmt::format("option '{}'", key.substr(section.size()))) != std::string::npos)
        rethrow_at(job, key, error);
    throw;
  }
}

}  // namespace distbelief::cli
