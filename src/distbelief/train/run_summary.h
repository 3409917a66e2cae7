#pragma once

#include <filesystem>
#include <string>

#include "distbelief/report/summary.h"
#include "distbelief/train/mode.h"
#include "distbelief/train/run_progress.h"

namespace distbelief::train {

struct SummarySite {
  Replica* replica = nullptr;
  const Record* record = nullptr;
  const RunProgress* progress = nullptr;
  std::string isa;
  double seconds = 0;               // that the run took, in this process
  std::int64_t samples_before = 0;  // that the run had seen when this process began
};

// How a run went, complete on the first worker, but for its status, hash and generations. Collective.
report::Summary summary_of(const SummarySite& site);

// Keeps for the report what the trained network says: predictions, generated samples, clusters of codes.
void keep_answers(const PreparedJob& job, model::Network& network, const std::filesystem::path& run_dir);

}  // namespace distbelief::train
