#include "distbelief/model/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <locale>
#include <vector>

namespace distbelief::model {
namespace {

constexpr std::size_t kColumns = 6;
constexpr std::size_t kFirstNumber = 3;  // this column and later ones are right-aligned
using Cells = std::array<std::string, kColumns>;

class GroupsOfThree : public std::numpunct<char> {
  char do_thousands_sep() const override { return ','; }
  std::string do_grouping() const override { return "\3"; }
};

std::string grouped(std::int64_t value) {
  static const std::locale locale(std::locale::classic(), new GroupsOfThree);
  return fmt::format(locale, "{:L}", value);
}

std::vector<Cells> cells_of(const Description& description) {
  std::vector<Cells> rows = {{"layer", "kind", "output", "parameters", "multiply-adds", "activation bytes"}};
  for (const LayerRow& row : description.layers) {
    rows.push_back({row.name, row.kind, to_string(row.output), grouped(row.parameters),
                    grouped(row.multiply_adds), grouped(row.activation_bytes)});
  }
  rows.push_back({"total", "", "", grouped(description.parameters), grouped(description.multiply_adds),
                  grouped(description.activation_bytes)});
  return rows;
}

std::string line_of(const Cells& cells, const std::array<std::size_t, kColumns>& widths) {
  std::string line;
  for (std::size_t i = 0; i < kColumns; ++i) {
    const char* format = i < kFirstNumber ? "{:<{}}" : "{:>{}}";
    line += fmt::format(fmt::runtime(format), cells[i], widths[i]);
    line += i + 1 < kColumns ? "  " : "\n";
  }
  return line;
}

}  // namespace

std::string render(const Description& description) {
  const std::vector<Cells> rows = cells_of(description);
  std::array<std::size_t, kColumns> widths{};
  for (const Cells& cells : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string table;
  for (const Cells& cells : rows) table += line_of(cells, widths);
  return table;
}

}  // namespace distbelief::model
