#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "distbelief/report/page_parts.h"

namespace distbelief::report {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostDrawn = 30;  // classes of a confusion matrix
constexpr std::size_t kMostListed = 20;  // confusions, for more classes than that

struct Cell {
  std::int64_t label = 0;
  std::int64_t predicted = 0;
  std::int64_t count = 0;
};

// Returns `other` for fractions, which nlohmann would silently truncate.
std::int64_t whole_or(const Json& object, const char* key, std::int64_t other) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : other;
}

std::vector<Cell> cells_of(const Json& predictions, std::int64_t classes) {
  constexpr std::int64_t kMostCount = std::int64_t{1} << 32;  // keeps sums from overflowing
  std::vector<Cell> cells;
  for (const Json& cell : predictions.value("confusion", Json::array())) {
    if (!cell.is_array() || cell.size() != 3 || !cell[0].is_number_integer() ||
        !cell[1].is_number_integer() || !cell[2].is_number_integer())
      continue;
    const Cell found{cell[0], cell[1], cell[2]};
    if (std::min({found.label, found.predicted, found.count}) >= 0 && found.count <= kMostCount &&
        std::max(found.label, found.predicted) < classes)
      cells.push_back(found);
  }
  return cells;
}

// The first `characters` characters of UTF-8; continuation bytes do not count.
std::string shortened(const std::string& name, std::size_t characters) {
  std::size_t end = 0;
  for (; end < name.size(); ++end)
    if ((static_cast<unsigned char>(name[end]) & 0xC0U) != 0x80U && characters-- == 0) break;
  return name.substr(0, end);
}

std::string class_name(const Json& predictions, std::int64_t index) {
  const auto names = predictions.find("names");
  if (names != predictions.end() && names->is_array() && index >= 0 && std::size_t(index) < names->size() &&
      (*names)[std::size_t(index)].is_string())
    return (*names)[std::size_t(index)].get<std::string>();
  return std::to_string(index);
}

std::string draw_matrix(const Json& predictions, const std::vector<Cell>& cells, std::int64_t classes) {
  const double size = std::clamp(420.0 / double(classes), 16.0, 44.0), left = 96, top = 44;
  std::vector<std::int64_t> of_label(std::size_t(classes), 0);
  for (const Cell& cell : cells) of_label[std::size_t(cell.label)] += cell.count;
  const double width = left + size * double(classes) + 10, height = top + size * double(classes) + 14;
  std::string out = fmt::format(
      R"(<svg class="confusion" role="img" aria-label="Confusion matrix: rows are labels, columns are predictions" viewBox="0 0 {0:.0f} {1:.0f}" style="max-width:{2:.0f}px">)",
      width, height, 1.35 * width);
  out += fmt::format(R"(<text class="label" x="{:.0f}" y="14">predicted</text>)",
                     left + size * double(classes) / 2);
  out += fmt::format(R"svg(<text class="label" transform="translate(14 {:.0f}) rotate(-90)">label</text>)svg",
                     top + size * double(classes) / 2);
  for (std::int64_t i = 0; i < classes; ++i) {
    const double middle = size * (double(i) + 0.5);
    const std::string name = class_name(predictions, i);
    const std::string narrow = shortened(name, std::size_t(size / 7));
    out += fmt::format(R"(<text class="label" x="{:.1f}" y="{:.0f}">{}<title>{}</title></text>)",
                       left + middle, top - 8, escape_html(narrow), escape_html(name));
    out += fmt::format(R"(<text class="label" x="{:.0f}" y="{:.1f}" style="text-anchor:end">{}</text>)",
                       left - 8, top + middle + 4, escape_html(shortened(name, 13)));
  }
  for (const Cell& cell : cells) {
    const double share =
        double(cell.count) / double(std::max<std::int64_t>(1, of_label[std::size_t(cell.label)]));
    const double x = left + size * double(cell.predicted), y = top + size * double(cell.label);
    out += fmt::format(
        R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="2" fill-opacity="{:.3f}"><title>{} taken for {}: {}</title></rect>)",
        x, y, size - 1.5, size - 1.5, 0.06 + 0.94 * share, escape_html(class_name(predictions, cell.label)),
        escape_html(class_name(predictions, cell.predicted)), cell.count);
    if (size >= 22)
      out += fmt::format(R"(<text{} x="{:.1f}" y="{:.1f}">{}</text>)", share > 0.5 ? R"( class="full")" : "",
                         x + size / 2 - 0.7, y + size / 2 + 4, cell.count);
  }
  return out + "</svg>";
}

std::string list_confusions(const Json& predictions, std::vector<Cell> cells) {
  std::erase_if(cells, [](const Cell& cell) { return cell.label == cell.predicted; });
  std::stable_sort(cells.begin(), cells.end(),
                   [](const Cell& a, const Cell& b) { return a.count > b.count; });
  std::string out =
      "<table><thead><tr><th>label</th><th>predicted</th><th>how often</th></tr></thead><tbody>";
  for (std::size_t i = 0; i < std::min(kMostListed, cells.size()); ++i)
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
                       escape_html(class_name(predictions, cells[i].label)),
                       escape_html(class_name(predictions, cells[i].predicted)), cells[i].count);
  return out + "</tbody></table>";
}

// Lets only base64 characters into a URL.
bool is_base64(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '/' || c == '=';
  });
}

std::string draw_samples(const Json& predictions, const char* key, const char* heading) {
  const Json samples = predictions.value(key, Json::array());
  if (!samples.is_array() || samples.empty()) return "";
  std::string out = fmt::format(R"(<p class="soft">{}</p><div class="samples">)", heading);
  for (const Json& sample : samples) {
    if (!sample.is_object()) continue;
    const std::int64_t label = whole_or(sample, "label", -1), predicted = whole_or(sample, "predicted", -1);
    const std::string image = sample.value("image", "");
    out += fmt::format(R"(<div class="{}">)", label == predicted ? "right" : "wrong");
    if (!image.empty() && is_base64(image))
      out += fmt::format(R"(<img alt="test sample {}, {}" src="data:image/png;base64,{}">)",
                         whole_or(sample, "sample", 0), escape_html(class_name(predictions, label)), image);
    out += fmt::format("<b>{}</b> {:.0f} %", escape_html(class_name(predictions, predicted)),
                       100 * sample.value("probability", 0.0));
    if (label != predicted) out += "<br>is " + escape_html(class_name(predictions, label));
    out += "</div>";
  }
  return out + "</div>";
}

}  // namespace

std::string prediction_parts(const Json& predictions) {
  if (!predictions.is_object()) return "";
  try {
    const std::int64_t classes = whole_or(predictions, "classes", 0);
    const std::vector<Cell> cells = cells_of(predictions, classes);
    if (classes < 1 || cells.empty()) return "";
    std::int64_t right = 0, all = 0;
    for (const Cell& cell : cells) {
      all += cell.count;
      right += cell.label == cell.predicted ? cell.count : 0;
    }
    const std::int64_t there = whole_or(predictions, "of", all);
    const std::string which =
        there > all ? fmt::format(", drawn from {}; distbelief report RUN --score takes all", there) : "";
    std::string out = fmt::format(
        R"(<h2>Predictions</h2><div class="grid2"><figure id="confusion"><figcaption>Confusion matrix</figcaption><p class="soft">{} of {} test samples are right ({:.2f} %){}</p>)",
        right, all, 100 * double(right) / double(std::max<std::int64_t>(1, all)), which);
    out += classes <= kMostDrawn ? draw_matrix(predictions, cells, classes)
                                 : list_confusions(predictions, cells);
    out += R"(</figure><figure id="samples"><figcaption>Sample predictions</figcaption>)";
    out += draw_samples(predictions, "first", "Some test samples");
    out += draw_samples(predictions, "mistakes", "The most confident mistakes");
    return out + "</figure></div>";
  } catch (const Json::exception&) {  // another program's file of that name
    return "";
  }
}

}  // namespace distbelief::report
