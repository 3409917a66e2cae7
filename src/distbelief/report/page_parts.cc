#include "distbelief/report/page_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace distbelief::report {
namespace {

using Json = nlohmann::json;

double number_or(const Json& object, const char* key, double other) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : other;
}

std::string figure(const std::string& name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, escape_html(value));
}

// Short times get one decimal, because events follow one another within seconds.
std::string time_of_event(double seconds) {
  return seconds < 60 ? fmt::format("{:.1f} s", std::max(0.0, seconds)) : short_time(seconds);
}

constexpr std::size_t kMostWorkers = 64;

struct WorkerBar {
  std::string name;
  PhaseSeconds seconds{};
  double total = 0;
};

std::vector<WorkerBar> worker_bars(const Json& summary) {
  std::vector<WorkerBar> bars;
  const auto workers = summary.find("per_worker");
  if (workers == summary.end() || !workers->is_array()) return bars;
  for (const Json& worker : *workers) {
    if (!worker.is_object() || !worker.contains("phase_seconds") || !worker["phase_seconds"].is_object())
      continue;
    if (bars.size() == kMostWorkers) break;
    const std::size_t lanes =
        worker.contains("lanes") && worker["lanes"].is_array() ? worker["lanes"].size() : 0;
    WorkerBar bar{.name = fmt::format("{:.0f} ({} lane{})", number_or(worker, "rank", 0), lanes,
                                      lanes == 1 ? "" : "s")};
    for (std::size_t i = 0; i < kPhaseCount; ++i) {
      bar.seconds[i] =
          std::max(0.0, number_or(worker["phase_seconds"], std::string(to_string(Phase(i))).c_str(), 0));
      bar.total += bar.seconds[i];
    }
    bars.push_back(std::move(bar));
  }
  return bars;
}

std::string draw_bar(const WorkerBar& bar, double y, double scale) {
  constexpr double kNames = 92;
  std::string out = fmt::format(R"(<text x="{:.0f}" y="{:.1f}" style="text-anchor:end">{}</text>)",
                                kNames - 8, y + 13, bar.name);
  double x = kNames;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const double width = bar.seconds[i] * scale;
    out += fmt::format(
        R"(<rect class="bar c{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="18"><title>worker {}: {} {}</title></rect>)",
        phase_colour(i), x, y, width, bar.name, to_string(Phase(i)), short_time(bar.seconds[i]));
    x += width;
  }
  return out;
}

}  // namespace

ChartMark::Kind kind_of(const RunEvent& event) {
  using Kind = ChartMark::Kind;
  static const std::set<std::string> losses = {"lost", "recovered", "host lost", "checkpoint failed",
                                               "spare lost"};
  static const std::set<std::string> scalings = {"scale", "autoscale", "rebalanced",
                                                 "lanes", "host back", "hosts"};
  if (losses.contains(event.kind)) return Kind::kLoss;
  if (scalings.contains(event.kind)) return Kind::kScaling;
  return event.kind == "checkpoint" ? Kind::kCheckpoint : Kind::kOther;
}

int phase_colour(std::size_t phase) {
  constexpr int kColours[] = {2, 1, 4, 5, 3, 6};  // data, forward, backward, exchange, update, other
  return kColours[phase];
}

std::string key_figures(const Json& summary, const RunHistory& history) {
  std::string out = R"(<dl class="figures">)";
  out += figure("steps", fmt::format("{}", history.steps()));
  if (!history.loss().empty())
    out += figure("training loss", fmt::format("{:.4f}", history.loss().pieces().back().mean()));
  for (const auto& [name, curve] : history.validations()) {
    if (curve.empty() || name == "test_loss") continue;
    const double last = curve.pieces().back().mean();
    const std::string shown = "test " + name.substr(5);
    out += figure(escape_html(shown),
                  name == "test_accuracy" ? fmt::format("{:.2f} %", 100 * last) : short_number(last));
  }
  if (!summary.is_object()) {
    if (!history.throughput().empty())
      out += figure("samples/s", short_number(history.throughput().pieces().back().mean()));
    return out + "</dl>";
  }
  out += figure("samples/s", short_number(number_or(summary, "samples_per_second", 0)));
  out += figure("time of training", short_time(number_or(summary, "wall_seconds", 0)));
  out += figure("workers, lanes", fmt::format("{:.0f}, {:.0f}", number_or(summary, "workers", 0),
                                              number_or(summary, "lanes", 0)));
  out += figure("parameters", short_number(number_or(summary, "parameters", 0)));
  out += figure("recoveries", fmt::format("{:.0f}", number_or(summary, "recoveries", 0)));
  out +=
      figure("largest worker", fmt::format("{:.0f} MiB", number_or(summary, "peak_rss_bytes", 0) / 1048576));
  return out + "</dl>";
}

std::string worker_balance(const Json& summary) {
  if (!summary.is_object()) return "";
  const std::vector<WorkerBar> bars = worker_bars(summary);
  if (bars.empty()) return "";
  double longest = 1e-9;
  for (const WorkerBar& bar : bars) longest = std::max(longest, bar.total);
  constexpr double kRow = 26, kLeft = 92, kRight = 622;
  const double height = kRow * double(bars.size()) + 46;
  const double scale = (kRight - kLeft) / longest;
  std::string out = R"(<figure id="workers"><figcaption>Time per worker<ul class="legend">)";
  for (std::size_t i = 0; i < kPhaseCount; ++i)
    out += fmt::format(R"(<li><i class="c{}"></i>{}</li>)", phase_colour(i), to_string(Phase(i)));
  out += fmt::format(
      R"(</ul></figcaption><svg class="chart" role="img" aria-label="Seconds that each worker spent in each phase" viewBox="0 0 640 {:.0f}">)",
      height);
  for (const Tick& tick : ticks(AxisKind::kSeconds, 0, longest, 6))
    out += fmt::format(
        R"(<path class="grid" d="M{0:.1f} 6V{1:.0f}"/><text class="x" x="{0:.1f}" y="{2:.0f}">{3}</text>)",
        kLeft + scale * tick.value, height - 40, height - 24, tick.label);
  for (std::size_t i = 0; i < bars.size(); ++i) out += draw_bar(bars[i], 8 + kRow * double(i), scale);
  out += fmt::format(
      R"(<text class="name" x="357" y="{:.0f}">time of the last generation</text></svg></figure>)",
      height - 6);
  return out;
}

std::string event_table(const std::vector<RunEvent>& events, const RunHistory& history) {
  constexpr const char* kClasses[] = {"loss", "scaling", "checkpoint", "other"};
  std::string out =
      R"(<h2>Events</h2><div class="card scroll"><table id="events"><thead><tr><th>time</th><th>step</th>)"
      "<th>what</th><th>details</th></tr></thead><tbody>";
  for (const RunEvent& event : events)
    out += fmt::format(R"(<tr><td>{}</td><td>{}</td><td class="kind {}">{}</td><td>{}</td></tr>)",
                       time_of_event(event.time - history.begin()), event.step.value_or(0),
                       kClasses[int(kind_of(event))], escape_html(event.kind), escape_html(event.text));
  out += "</tbody></table>";
  if (history.events_left_out() > 0)
    out += fmt::format(R"(<p class="soft">{} more are in events.jsonl</p>)", history.events_left_out());
  return out + "</div>";
}

}  // namespace distbelief::report
