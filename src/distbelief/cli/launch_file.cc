#include "distbelief/cli/launch_file.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"

namespace distbelief::cli {

LaunchFile read_launch_file(const std::filesystem::path& path) try {
  const nlohmann::json content = read_json(path);
  LaunchFile launch{.program = content.at("program"),
                    .directory = content.at("directory"),
                    .workers = int(whole_number(content.at("workers"), 1, std::numeric_limits<int>::max())),
                    .sets = content.at("set")};
  if (launch.program.empty()) throw Error(ErrorCode::kBadInput, "it names no program");
  return launch;
} catch (const std::exception& error) {
  throw Error(ErrorCode::kBadInput,
              fmt::format("{} is damaged: {}; start the program again with another --run-dir", path.string(),
                          error.what()));
}

}  // namespace distbelief::cli
