#pragma once

#include "distbelief/compute/optimizer.h"
#include "distbelief/data/registry.h"
#include "distbelief/job/mode_terms.h"
#include "distbelief/modes/table.h"
#include "distbelief/tasks/task.h"

// Parts that a program adds to those of DistBelief. A job file then names them as it names ours. All of this
// is for main(), before cli_main(): not thread-safe. Throws Error(kBadInput) when a name is taken.
namespace distbelief {

// A way between replicas: parallel.sync = NAME, with its settings in [NAME].
void register_mode(job::ModeTerms terms, modes::ModeParts (*make)(const modes::ModeSite& site));
// A kind of learning: train.task = NAME.
void register_task(tasks::TaskEntry entry);
// A source of data: data.name = NAME.
void register_data_set(data::DataSetEntry entry);
// A rule for updates: train.optimizer = NAME.
void register_optimizer(compute::OptimizerKind kind);

}  // namespace distbelief
