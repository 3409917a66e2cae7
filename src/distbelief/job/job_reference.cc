#include "distbelief/job/job_reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <variant>

#include "distbelief/job/schema.h"
#include "distbelief/job/toml_value.h"

namespace distbelief::job {
namespace {

std::string allowed(const Key& key) {
  if (key.limit) return std::string(key.limit->text);
  const std::vector<std::string> choices = choices_of(key);
  if (choices.empty()) return "any";
  return fmt::format("`{}`", fmt::join(choices, "`, `"));
}

}  // namespace

std::string job_file_reference() {
  const Config defaults;
  std::string text = "| key | type | allowed | default | meaning |\n|---|---|---|---|---|\n";
  for (const Key& key : keys()) {
    const auto value =
        std::visit([&](const auto& field) { return written(field.read(defaults)); }, key.field);
    text += fmt::format("| `{}` | {} | {} | `{}` | {} |\n", key.full_name(), type_name(key.field),
                        allowed(key), value, key.help);
  }
  return text;
}

}  // namespace distbelief::job
