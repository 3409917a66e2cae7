#include "distbelief/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace distbelief::report {
namespace {

double round_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power * 1.0001) return factor * power;
  return 10 * power;
}

double round_seconds(double rough) {
  for (const double step : {1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0,
                            7200.0, 10800.0, 21600.0, 43200.0, 86400.0})
    if (rough <= step) return step;
  return 86400 * round_step(rough / 86400);
}

std::string time_label(double value, double step) {
  if (value == 0) return "0";
  if (step < 1) return fmt::format("{:g} s", value);
  if (step < 60 && value < 60) return fmt::format("{:.0f} s", value);
  if (step < 60) return fmt::format("{:.0f}:{:02.0f}", std::floor(value / 60), std::fmod(value, 60));
  if (step < 3600 && value < 3600) return fmt::format("{:.0f} min", value / 60);
  if (step < 3600)
    return fmt::format("{:.0f} h {:02.0f}", std::floor(value / 3600), std::fmod(value, 3600) / 60);
  return fmt::format("{:.0f} h", value / 3600);
}

std::vector<Tick> logarithm_ticks(double low, double high) {
  const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
  const bool few = last - first <= 3;
  const int every = std::max(1, int(std::ceil((last - first) / 6)));
  std::vector<Tick> found;
  for (double power = first; power <= last; power += every)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, power);
      if ((factor > 1 && !few) || value < low * 0.9999 || value > high * 1.0001) continue;
      found.push_back({value, short_number(value)});
    }
  return found;
}

}  // namespace

std::vector<Tick> ticks(AxisKind kind, double low, double high, int wanted) {
  if (!std::isfinite(low) || !std::isfinite(high) || !(low < high)) return {};
  if (kind == AxisKind::kLogarithm) return logarithm_ticks(low, high);
  const double rough = (high - low) / wanted;
  const double step = kind == AxisKind::kSeconds && rough >= 1 ? round_seconds(rough) : round_step(rough);
  std::vector<Tick> found;
  const std::size_t most = 4 * std::size_t(wanted);  // far from 0, adding 1 may not change the value
  for (double i = std::ceil(low / step - 1e-6); i * step <= high + 1e-6 * step && found.size() < most; ++i) {
    const double value = i * step;
    found.push_back({value, kind == AxisKind::kSeconds
                                ? time_label(value, step)
                                : short_number(std::abs(value) < 1e-9 * step ? 0 : value)});
  }
  return found;
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (size >= 1e9) return fmt::format("{:.3g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.3g}k", value / 1e3);
  if (size >= 1000) return fmt::format("{:.0f}", value);
  return fmt::format("{:.3g}", value);
}

std::string short_time(double seconds) {
  if (seconds < 60) return fmt::format("{:.3g} s", seconds);
  const double whole = std::round(seconds);
  if (whole < 3600) return fmt::format("{:.0f} min {:.0f} s", std::floor(whole / 60), std::fmod(whole, 60));
  const double minutes = std::round(seconds / 60);
  return fmt::format("{:.0f} h {:.0f} min", std::floor(minutes / 60), std::fmod(minutes, 60));
}

}  // namespace distbelief::report
