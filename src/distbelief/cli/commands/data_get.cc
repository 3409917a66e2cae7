#include "distbelief/cli/commands/data_get.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "distbelief/cli/data_drawing.h"
#include "distbelief/cli/job_flags.h"
#include "distbelief/data/io/fetch.h"
#include "distbelief/data/slices/depot.h"

namespace distbelief::cli {
namespace {

struct GetFlags {
  std::string name;
  std::string to;
  std::string mirror;
  std::string ca_file;
};

std::string text_of(const GetFlags& flags) {
  const std::filesystem::path file(flags.name);
  return data::open_depot(file.parent_path().string(), flags.ca_file)
      ->read_all(file.filename().string(), 1 << 20);
}

int get_set(const GetFlags& flags) {
  const data::RemoteSet set = flags.name.ends_with(".json")
                                  ? data::parse_remote_set(text_of(flags), flags.name)
                                  : data::find_remote_set(flags.name);
  if (flags.to.empty() && flags.mirror.empty() && data::is_installed(set)) {
    fmt::print("'{}' is installed in {}; nothing to fetch (--to DIR fetches all the same)\n", set.name,
               set.installed);
    return 0;
  }
  const std::string to = flags.to.empty() ? set.folder : flags.to;
  std::string now;
  std::unique_ptr<ProgressLine> line;
  const data::Fetched fetched =
      data::fetch(set, {.folder = to,
                        .mirror = flags.mirror,
                        .ca_file = flags.ca_file,
                        .progress = [&](const std::string& file, std::uint64_t done, std::uint64_t all) {
                          if (file != now) line = std::make_unique<ProgressLine>(now = file, "bytes");
                          line->show(done, all);
                        }});
  line.reset();
  const std::string use = flags.name.ends_with(".json")
                              ? fmt::format("a job file for it: distbelief init {}", to)
                              : fmt::format("train on it: --set data.name={}{}", set.name,
                                            to == set.folder ? "" : " --set data.path=" + to);
  fmt::print("'{}' is in {}: {} fetched, {} was there already; every SHA-256 is right\n{}\n", set.name, to,
             bytes_text(fetched.bytes), bytes_text(fetched.kept_bytes), use);
  return 0;
}

}  // namespace

void add_ca_file(CLI::App& command, std::string& ca_file) {
  command
      .add_option("--ca-file", ca_file,
                  "PEM file of the certificate authority of an https server (default: the system's)")
      ->envname(kTrustVariable);
}

void add_data_get(CLI::App& data, Run& run) {
  auto flags = std::make_shared<GetFlags>();
  CLI::App* command = data.add_subcommand("get", "fetch a public data set");
  command
      ->add_option("name", flags->name,
                   "mnist, fashion_mnist or cifar10, or SET.json, which lists the files of a set of your own")
      ->required();
  command->add_option("--to", flags->to, "folder to write (default: data/NAME, where jobs look for it)");
  command->add_option("--mirror", flags->mirror,
                      "URL of a folder with copies of the files, used instead of their public server");
  add_ca_file(*command, flags->ca_file);
  command->footer(
      "Examples:\n  distbelief data get cifar10\n"
      "  distbelief data get mnist --to /data/mnist --mirror https://mirror.example/mnist\n\n"
      "An interrupted fetch continues when you repeat the command. A file with a wrong SHA-256 is "
      "discarded.");
  command->callback([=, &run] { run = [=] { return get_set(*flags); }; });
}

}  // namespace distbelief::cli
