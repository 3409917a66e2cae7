#include "distbelief/run/fence.h"

#include <fstream>

namespace distbelief::run {

std::int64_t read_fence(const std::filesystem::path& run_dir) {
  std::int64_t fence = 0;
  std::ifstream(run_dir / "fence") >> fence;
  return fence;
}

}  // namespace distbelief::run
