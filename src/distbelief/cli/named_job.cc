#include "distbelief/cli/named_job.h"

#include <fmt/format.h>

#include <new>

#include "distbelief/base/error.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/data/registry.h"
#include "distbelief/job/job_check.h"
#include "distbelief/model/registry.h"

namespace distbelief::cli {
namespace {

// Leaves nothing behind when the user interrupts the packing.
void pack_cleanly(const std::function<void()>& pack, const std::function<void()>& remove) {
  const Unfinished unfinished(remove);
  pack();
}

}  // namespace

void check_named(const job::Job& job) {
  const auto [model, set] = job::with_places(job, [&] {
    return std::pair(&model::find_model(job.config.model.name), &data::find_data_set(job.config.data.name));
  });
  job::check_options(job, "model", "model '" + model->name + "'", model->options);
  job::check_options(job, "data", "data set '" + set->name + "'", set->options);
}

void require_named(const job::Job& job, const std::string& model, const std::string& flag) {
  if (job.config.model.name == model) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("{} says '{}', --set model.name says '{}'; leave the latter out", flag, model,
                          job.config.model.name));
}

run::PreparedJob prepare_placed(const job::Job& job, const data::KnownSet* known) try {
  return job::with_places(job, [&] {
    return run::prepare_job(job.config, known != nullptr
                                            ? data::open_data_set(job.config.data, *known, pack_cleanly)
                                            : data::open_data_set(job.config.data, pack_cleanly));
  });
} catch (const std::bad_alloc&) {
  throw Error(ErrorCode::kUnavailable,
              fmt::format("this machine has not the memory for model '{}' and data set '{}'",
                          job.config.model.name, job.config.data.name));
}

void pack_cache(const job::Job& job) {
  if (!job.config.data.options.contains("cache")) return;
  job::with_places(job, [&] { data::open_data_set(job.config.data, pack_cleanly); });
}

}  // namespace distbelief::cli
