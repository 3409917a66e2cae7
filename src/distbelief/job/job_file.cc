#include "distbelief/job/job_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>
#include <variant>

#include "distbelief/job/override.h"
#include "distbelief/job/schema.h"
#include "distbelief/job/toml_value.h"

namespace distbelief::job {
namespace {

[[noreturn]] void fail_at(const SourcePlace& place, const std::string& message) {
  throw Error(ErrorCode::kBadInput, fmt::format("{}: {}", to_string(place), message));
}

bool is_section(const std::string& name) {
  return std::ranges::find(section_names(), name) != section_names().end();
}

void check_section(const std::string& name, const SourcePlace& place) {
  if (is_section(name)) return;
  const std::string near = nearest(name, section_names());
  fail_at(place, near.empty() ? fmt::format("unknown section [{}]; there are [{}]", name,
                                            fmt::join(section_names(), "], ["))
                              : fmt::format("unknown section [{}]; did you mean [{}]?", name, near));
}

[[noreturn]] void unknown_key(const std::string& section, const std::string& name, const SourcePlace& place) {
  const std::string near = suggest_key(section, name);
  const std::string advice = near.empty()
                                 ? fmt::format("[{}] has {}", section, fmt::join(key_names(section), ", "))
                                 : fmt::format("did you mean '{}'?", near);
  fail_at(place, fmt::format("unknown key '{}.{}'; {}", section, name, advice));
}

// Puts one value into its place. `section` exists.
void assign(Job& job, const std::string& section, const std::string& name, const toml::node& node,
            const SourcePlace& place) {
  const std::string full_name = section + "." + name;
  const Key* key = find_key(section, name);
  if (!key && !takes_options(section)) unknown_key(section, name, place);
  try {
    if (key) {
      std::visit([&](const auto& field) { read_value(full_name, node, field.write(job.config)); },
                 key->field);
    } else {
      OptionValue value;
      read_value(full_name, node, value);
      options_of(job.config, section)[name] = std::move(value);
    }
  } catch (const Error& error) {
    fail_at(place, error.message());
  }
  job.places[full_name] = place;
}

SourcePlace place_of(const toml::key& key, const std::string& file_name) {
  return {file_name, static_cast<int>(key.source().begin.line)};
}

[[noreturn]] void not_a_section(const toml::key& key, const toml::node& node, const SourcePlace& place) {
  const std::string name(key.str());
  if (is_section(name))
    fail_at(place, fmt::format("'{0}' must be a section, [{0}], found {1}", name, describe(node)));
  const std::string near = suggest_key("", name);
  fail_at(place, fmt::format("key '{}' stands outside a section; {}", name,
                             near.empty() ? fmt::format("there are [{}]", fmt::join(section_names(), "], ["))
                                          : fmt::format("did you mean '{}'?", near)));
}

toml::table parse_toml(std::string_view text, const std::string& file_name) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw Error(ErrorCode::kBadInput, fmt::format("{}:{}:{}: not valid TOML: {}", file_name, at.line,
                                                  at.column, error.description()));
  }
}

std::string read_text(const std::filesystem::path& path) {
  std::error_code trouble;
  if (!std::filesystem::exists(path, trouble)) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("job file '{}' does not exist; check its path, or leave it out "
                            "to train the default job",
                            path.string()));
  }
  if (std::filesystem::is_directory(path, trouble)) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("job file '{}' is a directory; name the TOML file in it", path.string()));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) {
    throw Error(ErrorCode::kBadInput, fmt::format("job file '{}' cannot be read: {}; check its permissions",
                                                  path.string(), std::strerror(errno)));
  }
  return text;
}

}  // namespace

std::string to_string(const SourcePlace& place) {
  return place.line > 0 ? fmt::format("{}:{}", place.source, place.line) : place.source;
}

Job read_job(std::string_view text, const std::string& file_name) {
  Job job;
  const toml::table document = parse_toml(text, file_name);
  for (const auto& [section, content] : document) {
    const toml::table* table = content.as_table();
    if (!table) not_a_section(section, content, place_of(section, file_name));
    check_section(std::string(section.str()), place_of(section, file_name));
    for (const auto& [name, node] : *table) {
      assign(job, std::string(section.str()), std::string(name.str()), node, place_of(name, file_name));
    }
  }
  return job;
}

Job read_job_file(const std::filesystem::path& path) { return read_job(read_text(path), path.string()); }

Config parse_job(std::string_view text, const std::string& file_name) {
  return read_job(text, file_name).config;
}

Config load_job_file(const std::filesystem::path& path) { return read_job_file(path).config; }

Config default_job() {
  Config config;
  config.train.optimizer.weight_decay = 5e-4;
  return config;
}

void apply_override(Job& job, const std::string& assignment) {
  const SourcePlace place{"--set " + assignment, 0};
  const Override change = parse_override(assignment);
  check_section(change.section, place);
  Job changed = job;
  assign(changed, change.section, change.name, *change.holder.get("value"), place);
  job = std::move(changed);
}

void apply_override(Config& config, const std::string& assignment) {
  Job job{config, {}};
  apply_override(job, assignment);
  config = std::move(job.config);
}

std::string to_toml(const Config& config) {
  std::string text;
  const auto append = [&](const std::string& name, const std::string& value) {
    text += fmt::format("{} = {}\n", written_key(name), value);
  };
  for (const std::string& section : section_names()) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    for (const Key& key : keys()) {
      if (key.section != section) continue;
      std::visit([&](const auto& field) { append(key.name, written(field.read(config))); }, key.field);
    }
    for (const auto& [name, value] : options_of(config, section)) append(name, written(value));
  }
  return text;
}

Error placed(const Job& job, const Error& error) {
  const auto place = job.places.find(error.where().key);
  if (place == job.places.end()) return error;
  return Error(error.code(), fmt::format("{}: {}", to_string(place->second), error.message()), error.where());
}

}  // namespace distbelief::job
