#include "distbelief/report/page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/json_text.h"
#include "distbelief/report/chart.h"
#include "distbelief/report/page_parts.h"
#include "distbelief/report/page_style.h"
#include "distbelief/report/picture.h"

namespace distbelief::report {
namespace {

using Json = nlohmann::json;

std::vector<ChartMark> marks_by_step(const std::vector<RunEvent>& events) {
  std::vector<ChartMark> marks;
  for (const RunEvent& event : events)
    if (kind_of(event) != ChartMark::Kind::kOther)
      marks.push_back({double(event.step.value_or(0)), kind_of(event), event.kind + ": " + event.text});
  return marks;
}

std::vector<ChartMark> marks_by_time(const std::vector<RunEvent>& events, double begin) {
  std::vector<ChartMark> marks;
  for (const RunEvent& event : events)
    marks.push_back({std::max(0.0, event.time - begin), kind_of(event), event.kind + ": " + event.text});
  return marks;
}

std::string loss_chart(const RunHistory& history, const std::vector<ChartMark>& marks) {
  Chart chart{.id = "loss",
              .title = "Loss",
              .x_name = "step",
              .y_name = "loss",
              .series = {{"training", 1, &history.loss()}},
              .marks = marks};
  const auto test = history.validations().find("test_loss");
  if (test != history.validations().end()) chart.series.push_back({"test", 2, &test->second});
  return render(chart);
}

// Whether a score always lies from 0 to 1; an rmse below 1 does not count.
bool is_share(const std::string& score) {
  static const std::set<std::string> shares{"accuracy",
                                            "top5",
                                            "f1",
                                            "auc",
                                            "iou",
                                            "cluster_purity",
                                            "label_error",
                                            "real_recognised",
                                            "generated_recognised"};
  return shares.contains(score);
}

// Draws all shares together in percent and every other score in a chart of its own.
std::string validation_charts(const RunHistory& history, const std::vector<ChartMark>& marks) {
  Chart shares{.id = "accuracy",
               .title = "Test accuracy",
               .x_name = "step",
               .y_name = "percent",
               .series = {},
               .marks = marks};
  std::string others;
  int colour = 3;
  for (const auto& [name, curve] : history.validations()) {
    if (name == "test_loss" || name.ends_with("_seconds")) continue;
    const std::string shown = name.substr(std::string("test_").size());
    if (is_share(shown)) {
      shares.series.push_back({shown, colour, &curve, 100});
      colour = colour % 6 + 1;
    } else {
      others += render({.id = name,
                        .title = "Test " + shown,
                        .x_name = "step",
                        .y_name = shown,
                        .series = {{shown, 3, &curve}},
                        .marks = marks});
    }
  }
  shares.y_most = 100;
  if (shares.series.size() != 1 || shares.series[0].name != "accuracy") shares.title = "Test scores";
  return (shares.series.empty() && !others.empty() ? "" : render(shares)) + others;
}

std::string time_charts(const RunHistory& history, const std::vector<ChartMark>& marks) {
  Chart throughput{.id = "throughput",
                   .title = "Throughput",
                   .x_name = "time since the start",
                   .y_name = "samples/s",
                   .x_kind = AxisKind::kSeconds,
                   .from_zero = true,
                   .series = {{"samples/s", 1, &history.throughput()}},
                   .marks = marks};
  Chart phases{.id = "phases",
               .title = "Time per phase, worker 0",
               .x_name = "time since the start",
               .y_name = "percent of the time",
               .x_kind = AxisKind::kSeconds,
               .shape = Chart::Shape::kStacked,
               .y_most = 100,
               .series = {},
               .marks = marks};
  for (std::size_t i = 0; i < kPhaseCount; ++i)
    phases.series.push_back(
        {std::string(to_string(Phase(i))), phase_colour(i), &history.phase_shares()[i], 100});
  return render(throughput) + render(phases);
}

std::string header(const PageContent& content) {
  const RunHistory& history = content.history;
  const bool goes_on = content.goes_on();
  const bool ended = !goes_on && content.summary.is_object();
  const Json told = ended ? content.summary.value("status", Json()) : Json();
  std::string status = goes_on ? "training" : told.is_string() ? told.get<std::string>() : "ended";
  const char* colour = goes_on ? "--c1" : status == "done" || status == "stopped early" ? "--c3" : "--c5";
  if (!goes_on && !ended) status = "ended without a result";
  constexpr double kYear10000 = 253402300800;
  const std::string began =
      history.begin() > 0 && history.begin() < kYear10000
          ? fmt::format("began {:%Y-%m-%d %H:%M:%S} UTC, ", fmt::gmtime(std::time_t(history.begin())))
          : "";
  return fmt::format(
      R"html(<h1>{}<span class="status" style="--s:var({})">{}</span></h1><p class="soft">{}{}</p>)html",
      escape_html(content.name), colour, escape_html(status), began,
      short_time(history.end() - history.begin()));
}

// A sheet of images that the network made; empty when there is none.
std::string sheet(const char* id, const char* caption, const std::string& png) {
  if (!png.starts_with("\x89PNG")) return "";
  return fmt::format(
      R"(<figure id="{}"><figcaption>{}</figcaption><img class="sheet" alt="{}" src="data:image/png;base64,{}"></figure>)",
      id, caption, caption, base64(png));
}

// Writes characters that a page cannot show as numbers.
std::string visible_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return escape_html(out);
}

std::string continued_text(const Json& sample) {
  const auto part = [&](const char* key) {
    const auto found = sample.find(key);
    return found != sample.end() && found->is_string() ? visible_text(found->get<std::string>()) : "";
  };
  if (!sample.is_object() || part("text").empty()) return "";
  return fmt::format(
      R"(<figure id="text"><figcaption>How the network goes on after the beginning of a test sample</figcaption><pre class="text"><b>{}</b>{}</pre></figure>)",
      part("prompt"), part("text"));
}

std::string larger_pictures(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  return fmt::format("<p>Too large for this page, in the run's folder: {}</p>",
                     escape_html(fmt::format("{}", fmt::join(names, ", "))));
}

std::string picture_parts(const PageContent& content) {
  const std::string sheets =
      sheet("generated", "What the network draws from noise", content.samples) +
      sheet("reconstructions", "Test images, and below each what the network makes of its code",
            content.reconstructions) +
      sheet("masks",
            "Test images, below each the classes that the network gives to its pixels, and the true ones",
            content.masks) +
      continued_text(content.text) + larger_pictures(content.left_out);
  return sheets.empty() ? "" : "<h2>Samples</h2>" + sheets;
}

std::string details_of_job(const std::string& job) {
  if (job.empty()) return "";
  return "<h2>Job</h2><details><summary>job.toml</summary><pre>" + escape_html(job) + "</pre></details>";
}

std::string read_text(const std::filesystem::path& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string text(most, '\0');
  file.read(text.data(), std::streamsize(most));
  text.resize(std::size_t(std::max<std::streamsize>(0, file.gcount())));
  return text;
}

// Empty, and named in `left_out`, when the file is too large for the page.
std::string read_sheet(const std::filesystem::path& path, std::vector<std::string>& left_out) {
  constexpr std::uintmax_t kLargestSheet = 4 << 20;
  std::error_code failure;
  const std::uintmax_t bytes = std::filesystem::file_size(path, failure);
  if (failure) return {};
  if (bytes <= kLargestSheet) return read_text(path, bytes);
  left_out.push_back(fmt::format("{} ({:.1f} MB)", path.filename().string(), double(bytes) / 1e6));
  return {};
}

Json json_or_null(const std::filesystem::path& path) {
  Json value = read_json(path);
  return value.is_discarded() ? Json() : value;
}

}  // namespace

std::string render_page(const PageContent& content) {
  const RunHistory& history = content.history;
  const std::vector<RunEvent> events = history.events();
  const std::vector<ChartMark> by_step = marks_by_step(events);
  std::string out = R"(<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" )"
                    R"(content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">)";
  if (content.refresh_seconds > 0)
    out += fmt::format(R"(<meta http-equiv="refresh" content="{:.0f}">)",
                       std::max(2.0, content.refresh_seconds));
  out += fmt::format("<title>{}</title><style>{}</style></head><body><main>", escape_html(content.name),
                     kPageStyle);
  out += header(content) + key_figures(content.goes_on() ? Json() : content.summary, history);
  out +=
      R"(<ul class="legend marks"><li>Marks in the charts:</li><li><i class="c5"></i>losses and recoveries</li>)"
      R"(<li><i class="c4"></i>scaling</li><li><i class="c3"></i>checkpoints</li></ul>)";
  out += R"(<div class="grid2">)" + loss_chart(history, by_step) + validation_charts(history, by_step);
  out += render({.id = "lr",
                 .title = "Learning rate",
                 .x_name = "step",
                 .y_name = "learning rate",
                 .from_zero = true,
                 .series = {{"learning rate", 4, &history.learning_rate()}},
                 .marks = by_step});
  out += time_charts(history, marks_by_time(events, history.begin()));
  out += worker_balance(content.summary) + "</div>";
  out += prediction_parts(content.predictions) + picture_parts(content);
  out += event_table(events, history) + details_of_job(content.job);
  return out + "</main><script>" + kPageScript + "</script></body></html>\n";
}

void write_page(const std::filesystem::path& run_dir, const RunHistory& history, double refresh_seconds) {
  constexpr std::size_t kLongestJob = 1 << 18;
  const Json summary = json_or_null(run_dir / "summary.json");
  const Json predictions = json_or_null(run_dir / "predictions.json");
  const Json text = json_or_null(run_dir / "samples.json");
  const std::string name = std::filesystem::absolute(run_dir).lexically_normal().filename().string();
  std::vector<std::string> left_out;
  const std::string samples = read_sheet(run_dir / "samples.png", left_out);
  const std::string reconstructions = read_sheet(run_dir / "reconstructions.png", left_out);
  const std::string masks = read_sheet(run_dir / "masks.png", left_out);
  const std::string page = render_page(
      {.history = history,
       .name = name.empty() ? std::filesystem::absolute(run_dir).parent_path().filename().string() : name,
       .summary = summary,
       .predictions = predictions,
       .text = text,
       .job = read_text(run_dir / "job.toml", kLongestJob),
       .samples = samples,
       .reconstructions = reconstructions,
       .masks = masks,
       .left_out = left_out,
       .refresh_seconds = refresh_seconds});
  const std::string_view pieces[] = {page};
  write_atomically(run_dir / "report.html", pieces);
}

}  // namespace distbelief::report
