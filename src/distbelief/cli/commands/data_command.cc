#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/commands/data_get.h"
#include "distbelief/cli/data_drawing.h"
#include "distbelief/cli/job_flags.h"
#include "distbelief/data/inspect.h"
#include "distbelief/data/learnt.h"
#include "distbelief/data/pipeline/split.h"
#include "distbelief/data/registry.h"
#include "distbelief/data/slices/depot.h"
#include "distbelief/data/slices/pack.h"
#include "distbelief/data/slices/packed_source.h"
#include "distbelief/data/slices/verify.h"
#include "distbelief/job/job_file.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

// The source of a data command: a data set's name, a job file, a packed set, or files as for `init`.
struct SourceFlags {
  std::string source;
  std::vector<std::string> sets;
  std::string data_dir;

  void add_to(CLI::App& command) {
    command
        .add_option(
            "source", source,
            "name of a data set, a job file (.toml), the folder or URL of a packed set, or your files: a "
            "table, a text, a .tar, a folder of images or shards")
        ->required();
    command.add_option("--set", sets, "override a key of the data set: --set data.samples=1000 (repeatable)")
        ->take_all()
        ->allow_extra_args(false);
    command.add_option("--data-dir", data_dir, "path of the data; same as --set data.path=DIR");
  }

  bool is_packed() const { return data::is_url(source) || fs::exists(fs::path(source) / data::kIndexName); }

  // Files whose type must be detected. A folder with the name of a data set counts as that set.
  bool is_files() const {
    for (const data::DataSetEntry& entry : data::data_sets())
      if (entry.name == source) return false;
    return source.find_first_of("./") != std::string::npos || fs::exists(source);
  }

  DataConfig config() const {
    job::Job job = source.ends_with(".toml") ? job::read_job_file(source) : job::Job{};
    if (is_packed()) {
      job.config.data.name = "packed";
      job.config.data.path = source;
    } else if (!source.ends_with(".toml") && is_files()) {
      look_at_files(job.config.data);
    } else if (!source.ends_with(".toml")) {
      job.config.data.name = source;
    }
    for (const std::string& assignment : sets) job::apply_override(job, assignment);
    if (!data_dir.empty()) job.config.data.path = data_dir;
    trust_environment(job.config.data);
    return job.config.data;
  }

 private:
  // Prints the detected type on stderr, because JSON answers go to stdout.
  void look_at_files(DataConfig& config) const {
    const data::Finding finding = data::inspect(source);
    config.name = finding.data_set;
    config.path = source;
    config.options = finding.options;
    std::string options;
    for (const auto& [name, value] : config.options)
      options += fmt::format(" --set data.{}={}", name, distbelief::to_string(value));
    fmt::print(stderr, "{} is data set '{}'{}{}\n", source, config.name,
               options.empty() ? "" : ", taken with", options);
  }
};

int default_threads() { return int(std::clamp(std::thread::hardware_concurrency(), 1U, 16U)); }

struct PackFlags {
  SourceFlags source;
  std::string out;
  double slice_mb = 1;
  std::uint64_t slices_per_file = 16;
  int level = 3;
  int threads = default_threads();
};

int pack_set(const PackFlags& flags) {
  DataConfig config = flags.source.config();
  config.augment.clear();
  const data::DataSet set = data::open_data_set(config);
  data::SliceIndex index;
  {
    ProgressLine line("packing", "samples");
    index =
        data::pack(set, {.folder = flags.out,
                         .slice_bytes = std::uint64_t(flags.slice_mb * (1 << 20)),
                         .slices_per_file = flags.slices_per_file,
                         .level = flags.level,
                         .threads = flags.threads,
                         .origin = config.name,
                         .progress = [&](std::uint64_t done, std::uint64_t all) { line.show(done, all); }});
  }
  const std::uint64_t bytes = data::packed_bytes(index.train) + data::packed_bytes(index.test);
  std::uint64_t raw = 0;
  for (const data::PartIndex* part : {&index.train, &index.test})
    for (const data::SliceEntry& slice : part->slices) raw += slice.raw_bytes;
  fmt::print(
      "packed {} + {} samples of '{}' into {}: {} slices in {} files, {} of {} ({:.0f} %)\n"
      "train on it: --set data.name=packed --set data.path={}\n",
      index.train.samples, index.test.samples, config.name, flags.out,
      index.train.slices.size() + index.test.slices.size(),
      index.train.files.size() + index.test.files.size(), bytes_text(bytes), bytes_text(raw),
      100.0 * double(bytes) / double(std::max<std::uint64_t>(1, raw)), flags.out);
  return 0;
}

struct VerifyFlags {
  std::string place;
  std::string ca_file;
  int threads = default_threads();
};

int verify_set(const VerifyFlags& flags) {
  const std::string& place = flags.place;
  data::Verified found;
  try {
    ProgressLine line("verifying", "slices");
    found = data::verify_packed(
        place, flags.threads, [&](std::uint64_t done, std::uint64_t all) { line.show(done, all); },
        flags.ca_file);
  } catch (const Error& error) {
    found.damage.push_back(error.message());
  }
  for (const std::string& damage : found.damage) fmt::print(stderr, "distbelief: {}\n", damage);
  if (!found.damage.empty()) {
    fmt::print("{}: {} place{} damaged\n", place, found.damage.size(),
               found.damage.size() == 1 ? " is" : "s are");
    return 1;
  }
  fmt::print("{}: sound, {} slices in {} files, {}\n", place, found.slices, found.files,
             bytes_text(found.bytes));
  return 0;
}

struct InfoFlags {
  SourceFlags source;
  std::string split;
  std::int64_t clients = 0;
  std::uint64_t seed = 1;
  bool json = false;
};

// Facts about one part.
struct PartInfo {
  std::uint64_t samples = 0;
  std::vector<std::uint64_t> balance;
};

struct SetInfo {
  std::string name;
  data::SampleSpec spec;
  PartInfo train;
  PartInfo test;
  std::string packed;  // empty: not packed
};

SetInfo info_of_packed(const DataConfig& config) {
  const std::string& place = config.path;
  const auto trusted = config.options.find("ca_file");
  const auto* ca_file =
      trusted == config.options.end() ? nullptr : std::get_if<std::string>(&trusted->second);
  const data::SliceIndex index = data::read_slice_index(place, ca_file == nullptr ? "" : *ca_file);
  const std::size_t slices = index.train.slices.size() + index.test.slices.size();
  return {
      .name = fmt::format("{} (packed from {})", place, index.origin.empty() ? "?" : index.origin),
      .spec = index.spec,
      .train = {index.train.samples, index.train.balance},
      .test = {index.test.samples, index.test.balance},
      .packed = fmt::format("{} in {} slices of {} samples, {} files",
                            bytes_text(data::packed_bytes(index.train) + data::packed_bytes(index.test)),
                            slices, index.slice_samples, index.train.files.size() + index.test.files.size())};
}

SetInfo info_of(const DataConfig& config) {
  const data::DataSet set = data::open_data_set(config);
  return {.name = config.name,
          .spec = set.train->spec(),
          .train = {set.train->size(), data::class_balance(*set.train)},
          .test = {set.test->size(), data::class_balance(*set.test)},
          .packed = {}};
}

void print_info(const SetInfo& info) {
  const auto sample = [](ElementType type, const Shape& shape) {
    return fmt::format("{} {}", distbelief::to_string(type), distbelief::to_string(shape));
  };
  fmt::print("{}\n  samples    {} to train on, {} to test on\n  input      {}\n  target     {}{}\n",
             info.name, info.train.samples, info.test.samples,
             sample(info.spec.input_type, info.spec.input_shape),
             sample(info.spec.target_type, info.spec.target_shape),
             info.spec.classes > 0 ? fmt::format(", {} classes", info.spec.classes) : "");
  if (!info.packed.empty()) fmt::print("  packed     {}\n", info.packed);
  if (info.train.balance.empty()) return;
  fmt::print("balance of what is trained on\n{}", draw_balance(info.train.balance, info.spec.class_names));
}

nlohmann::json info_json(const SetInfo& info) {
  const auto part = [](const PartInfo& of) {
    return nlohmann::json{{"samples", of.samples}, {"balance", of.balance}};
  };
  return {{"name", info.name},
          {"input_type", distbelief::to_string(info.spec.input_type)},
          {"input_shape", info.spec.input_shape},
          {"target_type", distbelief::to_string(info.spec.target_type)},
          {"target_shape", info.spec.target_shape},
          {"classes", info.spec.classes},
          {"class_names", info.spec.class_names},
          {"train", part(info.train)},
          {"test", part(info.test)},
          {"packed", info.packed}};
}

void show_split(const InfoFlags& flags, const DataConfig& config, nlohmann::json* json) {
  const data::DataSet set = data::open_data_set(config);
  const bool is_table = set.learnt && set.learnt->table;
  const data::SplitRule rule = data::parse_split(flags.split, is_table ? &*set.learnt->table : nullptr);
  const data::SplitColumns columns = data::read_split_columns(*set.train, rule);
  const data::Split split = data::split_samples(rule, columns, flags.clients, flags.seed);
  if (json != nullptr) {
    for (const auto& samples : split) {
      std::vector<std::uint64_t> balance(std::size_t(columns.classes));
      if (columns.classes > 0)
        for (const std::uint64_t sample : samples) ++balance[std::size_t(columns.labels[sample])];
      (*json)["split"].push_back({{"samples", samples.size()}, {"balance", balance}});
    }
    return;
  }
  fmt::print("split {} between {} clients, seed {}\n{}", flags.split, flags.clients, flags.seed,
             draw_split(split, columns));
}

int show_info(const InfoFlags& flags) {
  if (!flags.split.empty() && flags.clients < 1)
    throw Error(ErrorCode::kBadInput, "--split needs --clients: between how many the samples are shared out");
  const DataConfig config = flags.source.config();
  const SetInfo found = flags.source.is_packed() ? info_of_packed(config) : info_of(config);
  nlohmann::json json = info_json(found);
  if (!flags.json) print_info(found);
  if (!flags.split.empty()) show_split(flags, config, flags.json ? &json : nullptr);
  if (flags.json) fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return 0;
}

void add_pack(CLI::App& data, Run& run) {
  auto flags = std::make_shared<PackFlags>();
  CLI::App* command = data.add_subcommand("pack", "cut a data set into compressed slices with checksums");
  flags->source.add_to(*command);
  command->add_option("out", flags->out, "folder to write: a new one, or one that an interrupted pack left")
      ->required();
  command->add_option("--slice-mb", flags->slice_mb, "megabytes of samples per slice, before compression")
      ->check(CLI::Range(0.001, 1024.0))
      ->capture_default_str();
  command
      ->add_option("--slices-per-file", flags->slices_per_file,
                   "slices per file; one transfer can fetch neighbours in a file")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--level", flags->level,
                   "zstd compression level: 1 is fastest, 19 makes the smallest files")
      ->check(CLI::Range(1, 19))
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "threads that read and compress")
      ->check(CLI::Range(1, 1024));
  command->footer(
      "Examples:\n  distbelief data pack fashion_mnist /data/fashion --slice-mb 1\n"
      "  distbelief data pack job.toml /data/set\n"
      "  distbelief data pack photos/ /data/photos --set data.resize=256 --set data.crop=224\n"
      "  distbelief data pack synthetic /data/s --set data.samples=100000 --set data.height=64");
  command->callback([=, &run] { run = [=] { return pack_set(*flags); }; });
}

void add_info(CLI::App& data, Run& run) {
  auto flags = std::make_shared<InfoFlags>();
  CLI::App* command =
      data.add_subcommand("info", "print counts, shapes, size and balance of classes of a data set");
  flags->source.add_to(*command);
  command->add_option("--split", flags->split,
                      "show how a split deals samples to clients: even, stratified, label:CLASSES, "
                      "dirichlet:ALPHA, feature:NUMBER or COLUMN");
  command->add_option("--clients", flags->clients, "number of clients of the split")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--seed", flags->seed, "seed of the split")->capture_default_str();
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Examples:\n  distbelief data info fashion_mnist\n  distbelief data info /data/fashion\n"
      "  distbelief data info people.csv\n"
      "  distbelief data info fashion_mnist --split dirichlet:0.3 --clients 8");
  command->callback([=, &run] { run = [=] { return show_info(*flags); }; });
}

void add_verify(CLI::App& data, Run& run) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* command = data.add_subcommand("verify", "read a packed set and check every checksum");
  command->add_option("place", flags->place, "folder or URL of the packed set")->required();
  command->add_option("--threads", flags->threads, "threads that read and check")->check(CLI::Range(1, 1024));
  add_ca_file(*command, flags->ca_file);
  command->footer(
      "Examples:\n  distbelief data verify /data/fashion\n  distbelief data verify https://host/fashion\n\n"
      "The command prints file and offset of each damaged place and then ends with exit code 1.");
  command->callback([=, &run] { run = [=] { return verify_set(*flags); }; });
}

}  // namespace

void add_data(CLI::App& app, const Invocation&, Run& run) {
  CLI::App* data = app.add_subcommand("data", "pack, inspect, verify and fetch data sets");
  data->require_subcommand(1);
  data->footer(
      "Examples:\n  distbelief data pack fashion_mnist /data/fashion\n  distbelief data COMMAND --help");
  add_pack(*data, run);
  add_info(*data, run);
  add_verify(*data, run);
  add_data_get(*data, run);
  data->group(kStartGroup);  // last, because a new subcommand takes the group of its parent
}

}  // namespace distbelief::cli
