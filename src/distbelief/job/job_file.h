#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "distbelief/base/config.h"
#include "distbelief/base/error.h"

// Job files: TOML to Config and back. docs/reference/job_file.md describes the format. Everything here throws
// Error(kBadInput) whose message begins with the place: "job.toml:7: unknown key 'train.epoch'; ...".
// Types and names are checked here; ranges and mixes by validate() (job_check.h), after the overrides.
namespace distbelief::job {

// Where a setting was written: a line of a file, or (line 0) a whole flag such as "--set train.lr=1".
struct SourcePlace {
  std::string source;
  int line = 0;
};
std::string to_string(const SourcePlace& place);  // "job.toml:7"

// A Config that remembers where its settings came from, by full name ("model.hidden"), so that trouble
// found later can be reported there. Settings left at their default have no place.
struct Job {
  Config config;
  std::map<std::string, SourcePlace> places;
};

// Keys that are left out have the defaults of Config.
Job read_job(std::string_view text, const std::string& file_name);
Job read_job_file(const std::filesystem::path& path);
Config parse_job(std::string_view text, const std::string& file_name);
Config load_job_file(const std::filesystem::path& path);

// The job of `distbelief train` without a job file: examples/jobs/fashion_mnist_cnn.toml.
Config default_job();

// --set section.key=value. The value is TOML; bare words are strings, also within a list:
// data.augment=[flip]. Leaves the job unchanged when it throws.
void apply_override(Job& job, const std::string& assignment);
void apply_override(Config& config, const std::string& assignment);

// The whole job, every key: parse_job(to_toml(c), "") == c for any c that passes validate().
std::string to_toml(const Config& config);

// The same error; its message begins with the place where the key that it is about was set, if it was.
Error placed(const Job& job, const Error& error);

// Gives the result of `act`; its errors are placed().
template <typename Act>
decltype(auto) with_places(const Job& job, const Act& act) {
  try {
    return act();
  } catch (const Error& error) {
    throw placed(job, error);
  }
}

}  // namespace distbelief::job
