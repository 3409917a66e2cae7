#pragma once

#include <filesystem>
#include <string>

#include "distbelief/modes/mode.h"
#include "distbelief/report/summary.h"
#include "distbelief/run/run_progress.h"

namespace distbelief::train {

struct SummarySite {
  replica::Replica* replica = nullptr;
  const modes::Record* record = nullptr;
  const run::RunProgress* progress = nullptr;
  std::string isa;
  double seconds = 0;               // that the run took, in this process
  std::int64_t samples_before = 0;  // that the run had seen when this process began
};

// How a run went, complete on the first worker, but for its status, hash and generations. Collective.
report::Summary summary_of(const SummarySite& site);

// Keeps for the report what the trained network says: predictions, generated samples, clusters of codes.
void keep_answers(const run::PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir);

}  // namespace distbelief::train
