#pragma once

#include <cstdint>
#include <filesystem>

#include "distbelief/base/config.h"
#include "distbelief/cli/start_check.h"

namespace distbelief::cli {

// What a run that is resumed may go on from.
enum class Saved { kCheckpoints, kSnapshotsToo };
// Whether there is nothing left to do, and says so. Names damaged checkpoints. Throws when there is nothing
// to go on from, or when what there is does not fit the job as it is now.
bool is_finished(const std::filesystem::path& run_dir, const Config& config, const StartNeeds& needs,
                 Saved saved);

// The step that a resumed run goes on with: that of the newest checkpoint that is whole; 0: there is none.
std::int64_t saved_step(const std::filesystem::path& run_dir);

}  // namespace distbelief::cli
