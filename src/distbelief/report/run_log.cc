#include "distbelief/report/run_log.h"

#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include "distbelief/base/error.h"

namespace distbelief::report {

std::shared_ptr<spdlog::logger> open_log(const std::filesystem::path& run_dir, const std::string& name) {
  const std::filesystem::path folder = run_dir / "logs";
  try {
    std::filesystem::create_directories(folder);
    auto log = std::make_shared<spdlog::logger>(
        name, std::make_shared<spdlog::sinks::basic_file_sink_mt>((folder / (name + ".log")).string()));
    log->flush_on(spdlog::level::info);
    // Prints the first error only: on a full disk every line would fail.
    log->set_error_handler([name, said = std::make_shared<std::atomic<bool>>(false)](const std::string& why) {
      if (!said->exchange(true))
        std::fprintf(stderr, "distbelief: %s: its log misses lines: %s\n", name.c_str(), why.c_str());
    });
    return log;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot write logs to {}: {}", folder.string(), error.what()));
  }
}

}  // namespace distbelief::report
