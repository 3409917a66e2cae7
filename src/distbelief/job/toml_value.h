#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/base/options.h"

// Between TOML values and our own. Reading throws Error(kBadInput), without the place:
// "train.lr must be a number, found the string "fast"".
namespace distbelief::job {

void read_value(const std::string& key, const toml::node& node, bool& out);
void read_value(const std::string& key, const toml::node& node, std::int64_t& out);
void read_value(const std::string& key, const toml::node& node, std::uint64_t& out);
void read_value(const std::string& key, const toml::node& node, double& out);  // an integer will do
void read_value(const std::string& key, const toml::node& node, std::string& out);
void read_value(const std::string& key, const toml::node& node, std::vector<std::string>& out);
void read_value(const std::string& key, const toml::node& node, std::vector<std::int64_t>& out);
void read_value(const std::string& key, const toml::node& node, OptionValue& out);

std::string describe(const toml::node& node);  // the string "fast", the integer 3, a table

// As TOML text. Numbers have the fewest digits that read back as the same number.
std::string written(bool value);
std::string written(std::int64_t value);
std::string written(std::uint64_t value);
std::string written(double value);
std::string written(const std::string& value);
std::string written(const std::vector<std::string>& value);
std::string written(const std::vector<std::int64_t>& value);
std::string written(const OptionValue& value);
std::string written_key(const std::string& name);  // quoted only where TOML wants it

}  // namespace distbelief::job
