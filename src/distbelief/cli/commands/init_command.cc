#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/starter_job.h"
#include "distbelief/data/registry.h"
#include "distbelief/job/job_check.h"
#include "distbelief/job/job_file.h"

namespace distbelief::cli {
namespace {

struct InitFlags {
  std::string data;
  std::string out = "job.toml";
  bool force = false;
};

void write_new_file(const std::string& path, const std::string& text, bool replace) {
  std::FILE* file = std::fopen(path.c_str(), replace ? "w" : "wx");
  if (file == nullptr && errno == EEXIST)
    throw Error(ErrorCode::kBadInput,
                fmt::format("'{}' is there already; --force replaces it, --out writes another", path));
  const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int reason = errno;
  if (file == nullptr || std::fclose(file) != 0 || !written)
    throw Error(ErrorCode::kUnavailable, fmt::format("cannot write '{}': {}", path, std::strerror(reason)));
}

int init(const InitFlags& flags) {
  const data::Finding finding = data::inspect(flags.data);
  const std::string path = std::filesystem::absolute(flags.data).lexically_normal().string();
  const std::string text = starter_job(finding, path);
  // The written job must work, so it is read back and its data opened first.
  const job::Job job = job::read_job(text, flags.out);
  job::validate(job);
  const data::DataSet set = data::open_data_set(job.config.data);
  write_new_file(flags.out, text, flags.force);
  fmt::print("{} is data set '{}'\n", flags.data, finding.data_set);
  for (const std::string& note : finding.notes) fmt::print("  {}\n", in_one_line(note));
  fmt::print("  {} samples to train on, {} to test on\nwrote {}; next: distbelief train {}\n",
             set.train->size(), set.test->size(), flags.out, flags.out);
  return 0;
}

}  // namespace

void add_init(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<InitFlags>();
  CLI::App* command = app.add_subcommand("init", "look at your data and write a job file that trains on it")
                          ->group(kStartGroup);
  command
      ->add_option("data", flags->data,
                   "your data: a table (.csv, .tsv), a text, a .tar, or a folder of images or shards")
      ->required();
  command->add_option("--out", flags->out, "job file to write")->capture_default_str();
  command->add_flag("--force", flags->force, "replace the file if it exists");
  command->footer("Examples:\n  distbelief init people.csv\n  distbelief init photos/ --out photos.toml");
  command->callback([=, &run] { run = [=] { return init(*flags); }; });
}

}  // namespace distbelief::cli
