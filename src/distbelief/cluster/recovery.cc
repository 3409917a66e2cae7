#include "distbelief/cluster/recovery.h"

#include <fmt/format.h>

#include <algorithm>

namespace distbelief::cluster {
namespace {

using std::chrono::milliseconds;
constexpr int kSamePlace = 3;  // losses at one step that rule out chance
constexpr milliseconds kFirstDelay{250};
constexpr milliseconds kLongestDelay{30'000};

// The number of losses at the end of the list since the run's last new step.
int without_progress(const std::vector<Loss>& losses) {
  std::int64_t best = -2;
  int count = 0;
  for (const Loss& loss : losses) {
    count = loss.step > best ? 1 : count + 1;
    best = std::max(best, loss.step);
  }
  return count;
}

int at_same_place(const std::vector<Loss>& losses) {
  const auto different = [&](const Loss& loss) {
    return loss.step != losses.back().step || loss.reason != losses.back().reason;
  };
  const auto first = std::find_if(losses.rbegin(), losses.rend(), different);
  return int(first - losses.rbegin());
}

}  // namespace

std::string Loss::describe() const {
  std::string text = !host.empty() ? fmt::format("host {} lost", host)
                     : launcher    ? "the launcher was lost"
                     : rank >= 0   ? fmt::format("worker {} lost", rank)
                                   : "the workers were lost";
  if (signal > 0)
    text += fmt::format(" (signal {})", signal);
  else if (!reason.empty())
    text += fmt::format(" ({})", reason);
  else
    text += fmt::format(" (exit code {})", exit_code);
  return text + (step >= 0 ? fmt::format(" at step {}", step) : " before the first step");
}

bool was_refused(const Loss& loss, std::int64_t steps_done) {
  return loss.exit_code == 2 && loss.signal == 0 && std::max(loss.step, steps_done) <= 0;
}

RecoveryDecision decide_recovery(const RecoveryPolicy& policy, const std::vector<Loss>& losses) {
  const Loss& last = losses.back();
  const bool is_one_of_many =
      policy.runs_elsewhere && last.step >= 0;  // a process that never trained may itself be at fault
  if (last.exit_code == 2 && last.signal == 0 && !is_one_of_many)
    return {false, {}, "the job cannot be run as it is"};
  if (last.by_job && !is_one_of_many) return {false, {}, "the job is at fault"};
  if (policy.restarts == 0) return {false, {}, "elastic.restarts is 0"};
  if (losses.size() == 1 && last.step < 0 && last.signal == 0 && !last.silent && !policy.runs_elsewhere)
    return {false, {}, "the workers could not start"};
  const int tries = without_progress(losses);
  if (last.signal == 0 && at_same_place(losses) >= kSamePlace)
    return {
        false, {}, fmt::format("the same fault {} times at step {}: {}", kSamePlace, last.step, last.reason)};
  if (tries > policy.restarts)
    return {false, {}, fmt::format("{} restarts in a row brought no new step (elastic.restarts)", tries - 1)};
  if (tries <= 1) return {true, milliseconds(0), "go on from the newest state"};
  const milliseconds delay =
      std::min(kLongestDelay, milliseconds(kFirstDelay.count() << std::min(tries - 2, 16)));
  return {true, delay, fmt::format("try {} without a new step, after {} ms", tries, delay.count())};
}

}  // namespace distbelief::cluster
