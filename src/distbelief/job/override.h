#pragma once

#include <toml++/toml.h>

#include <string>

namespace distbelief::job {

// One --set flag, taken apart. The key is not looked up in the schema beyond asking whether it wants a
// string, which makes quotes unnecessary: data.path=2024 names a folder.
struct Override {
  std::string section;
  std::string name;
  toml::table holder;  // its one key, "value", holds the value
};

// Throws Error(kBadInput), naming the flag, unless `assignment` is section.key=value.
Override parse_override(const std::string& assignment);

}  // namespace distbelief::job
