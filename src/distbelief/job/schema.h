#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "distbelief/base/config.h"

// Every key of a job file, once: where it lives in Config, what it may be and what it means. Parsing,
// --set, writing, checking, hints and docs/reference/job_file.md are all made from this table.
namespace distbelief::job {

template <typename T>
struct Field {
  using Value = T;
  T& (*write)(Config&);
  const T& (*read)(const Config&);
};

using AnyField =
    std::variant<Field<bool>, Field<std::int64_t>, Field<std::uint64_t>, Field<double>, Field<std::string>,
                 Field<std::vector<std::string>>, Field<std::vector<std::int64_t>>>;

// A condition on a number, and the words for it: "must be " + text.
struct Limit {
  std::string_view text;
  bool (*holds)(double);
};

struct Key {
  std::string section;
  std::string name;
  AnyField field;
  std::optional<Limit> limit;        // numbers
  std::vector<std::string> choices;  // strings, and the members of lists; empty: any
  std::string help;

  std::string full_name() const { return section + "." + name; }
};

const std::vector<Key>& keys();                   // section by section, in the order they are written
const std::vector<std::string>& section_names();  // in the same order

// For a program that adds to the system, before anything is read: not thread-safe. Throw Error(kBadInput)
// when the name is taken. A further value of a key with choices, and a mode: a value of parallel.sync with a
// section of its own.
void add_choice(const std::string& full_name, const std::string& value);
void add_mode_section(const std::string& name);
std::vector<std::string> choices_of(const Key& key);  // with those that were added

// [model], [data] and the sections of added modes keep keys that are not in the table, for the model, data
// set or mode to understand.
bool takes_options(const std::string& section);
const OptionMap& options_of(const Config& config, const std::string& section);  // empty for other sections
OptionMap& options_of(Config& config, const std::string& section);  // sections that take options only

const Key* find_key(const std::string& section, const std::string& name);  // null when there is none
std::vector<std::string> key_names(const std::string& section);            // without the section

// The full name of the key that was probably meant, or an empty string: the same name in another
// section, the nearest in this one, the nearest anywhere.
std::string suggest_key(const std::string& section, const std::string& name);

std::string type_name(const AnyField& field);  // "number"; as base's type_name for options

}  // namespace distbelief::job
