#pragma once

#include <cstdint>
#include <filesystem>

#include "distbelief/base/config.h"
#include "distbelief/cli/start_check.h"

namespace distbelief::cli {

// The state from which a resumed run may continue.
enum class Saved { kCheckpoints, kSnapshotsToo };
// Whether the run has nothing left to do; prints that if so. Names damaged checkpoints. Throws when there is
// no saved state, or when it does not fit the current job.
bool is_finished(const std::filesystem::path& run_dir, const Config& config, const StartNeeds& needs,
                 Saved saved);

// The step where a resumed run continues: that of the newest whole checkpoint; 0: there is none.
std::int64_t saved_step(const std::filesystem::path& run_dir);

}  // namespace distbelief::cli
