#include "distbelief/cli/extension.h"

#include <utility>

#include "distbelief/job/schema.h"

namespace distbelief {

void register_mode(job::ModeTerms terms, modes::ModeParts (*make)(const modes::ModeSite& site)) {
  const std::string name = terms.name;
  job::register_mode_terms(std::move(terms));
  modes::register_mode(name, make);
}

void register_task(tasks::TaskEntry entry) {
  job::add_choice("train.task", entry.name);
  tasks::register_task(std::move(entry));
}

void register_data_set(data::DataSetEntry entry) { data::register_data_set(std::move(entry)); }

void register_optimizer(compute::OptimizerKind kind) {
  job::add_choice("train.optimizer", kind.name);
  compute::register_optimizer(std::move(kind));
}

}  // namespace distbelief
