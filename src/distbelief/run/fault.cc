#include "distbelief/run/fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "distbelief/base/error.h"

namespace distbelief::run {
namespace {

constexpr std::array<std::string_view, 7> kKinds = {"kill",      "stop", "throw", "slow", "corrupt-snapshot",
                                                    "disk-full", "drift"};
constexpr std::array<std::string_view, 5> kPoints = {"step", "mid-bucket", "mid-snapshot", "mid-rename",
                                                     "mid-restart"};

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorCode::kBadInput,
              fmt::format("--inject {}: {}; an example: --inject kill:rank=1,step=37", text, why));
}

template <typename T>
T number(const std::string& text, const std::string& value) {
  T result{};
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, result);
  if (error != std::errc{} || stop != end || result < 0)
    refuse(text, fmt::format("'{}' is no number", value));
  return result;
}

template <std::size_t kCount>
void require_one_of(const std::array<std::string_view, kCount>& known, const std::string& found,
                    const std::string& text, const char* what) {
  if (std::find(known.begin(), known.end(), found) == known.end())
    refuse(text, fmt::format("no {} '{}'; there are {}", what, found, fmt::join(known, ", ")));
}

}  // namespace

Fault parse_fault(const std::string& text) {
  const std::size_t colon = text.find(':');
  Fault fault;
  fault.kind = text.substr(0, colon);
  require_one_of(kKinds, fault.kind, text, "kind of fault");
  std::istringstream settings(colon == std::string::npos ? "" : text.substr(colon + 1));
  for (std::string setting; std::getline(settings, setting, ',');) {
    const std::size_t equals = setting.find('=');
    const std::string key = setting.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : setting.substr(equals + 1);
    if (key == "rank")
      fault.rank = number<int>(text, value);
    else if (key == "step")
      fault.step = number<std::int64_t>(text, value);
    else if (key == "generation")
      fault.generation = number<int>(text, value);
    else if (key == "factor")
      fault.factor = number<double>(text, value);
    else if (key == "steps")
      fault.steps = number<std::int64_t>(text, value);
    else if (key == "point")
      fault.point = value;
    else
      refuse(text, fmt::format("no key '{}'; there are rank, step, generation, point, factor, steps", key));
  }
  require_one_of(kPoints, fault.point, text, "point");
  if (!(fault.factor >= 1)) refuse(text, fmt::format("factor must be 1 or more, found {}", fault.factor));
  return fault;
}

Fault parse_fault(const std::string& text, const WorkerCounts& workers) {
  Fault fault = parse_fault(text);
  const std::int64_t count = fault.generation == 1 ? workers.first : workers.most;
  if (fault.rank >= count)
    refuse(text,
           fmt::format("there is no worker {}: generation {} has 0 to {}", fault.rank,
                       fault.generation == 0 ? "1 or later" : std::to_string(fault.generation), count - 1));
  return fault;
}

Faults::Faults(std::vector<Fault> faults, int rank, int generation) {
  for (Fault& fault : faults)
    if (fault.rank == rank && (fault.generation == 0 || fault.generation == generation))
      faults_.push_back(std::move(fault));
}

void Faults::pass(std::string_view point, std::int64_t step) {
  for (const Fault& fault : faults_) {
    if (fault.point != point || fault.step != step) continue;
    if (fault.kind == "kill") raise(SIGKILL);
    if (fault.kind == "stop") raise(SIGSTOP);
    if (fault.kind == "throw")
      throw Error(ErrorCode::kInternal, "injected fault",
                  {.rank = fault.rank, .operation = "train", .step = step});
  }
}

bool Faults::wants_corrupt_snapshot(std::int64_t step) const {
  return std::any_of(faults_.begin(), faults_.end(), [&](const Fault& fault) {
    return fault.kind == "corrupt-snapshot" && step >= fault.step;
  });
}

bool Faults::disk_is_full(std::int64_t step) const {
  return std::any_of(faults_.begin(), faults_.end(), [&](const Fault& fault) {
    return fault.kind == "disk-full" && step >= fault.step && step < fault.step + fault.steps;
  });
}

bool Faults::drifts(std::int64_t step) const {
  return std::any_of(faults_.begin(), faults_.end(),
                     [&](const Fault& fault) { return fault.kind == "drift" && step == fault.step; });
}

double Faults::slowness(std::int64_t step) const {
  double slowest = 1;
  for (const Fault& fault : faults_)
    if (fault.kind == "slow" && step >= fault.step) slowest = std::max(slowest, fault.factor);
  return slowest;
}

}  // namespace distbelief::run
