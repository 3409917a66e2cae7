#include "distbelief/comm/rpc/admission.h"

#include <algorithm>

namespace distbelief::comm {

void Admission::Turns::refill(Clock::time_point now, double per_second, double most) {
  if (counted)
    turns = std::min(most, turns + per_second * std::chrono::duration<double>(now - *counted).count());
  counted = now;
}

void Admission::Turns::give_back(double most) { turns = std::min(most, turns + 1); }

bool Admission::is_full(const std::string& source) const {
  const auto found = sources_.find(source);
  return found != sources_.end() && found->second.line.size() >= options_.line;
}

Admission::Source& Admission::at(const std::string& source) {
  const auto [found, is_new] = sources_.try_emplace(source);
  if (is_new) found->second.turns.turns = options_.turns;
  return found->second;
}

int Admission::drop_last(Source& source) {
  const int last = source.line.back();
  source.line.pop_back();
  --waiting_;
  return last;
}

std::optional<int> Admission::arrive(const std::string& source, int visitor) {
  Source& own = at(source);
  if (own.line.size() >= options_.line) return visitor;
  own.line.push_back(visitor);
  if (++waiting_ <= options_.waiting) return std::nullopt;
  return drop_last(*source_to_shorten(own));
}

// Unknown sources make room before known ones. When every source has one visitor waiting, the earlier
// visitors stay.
Admission::Source* Admission::source_to_shorten(Source& own) {
  Source* longest = &own;
  for (auto& [name, source] : sources_) {
    if (source.line.empty() || (source.is_known && !longest->is_known)) continue;
    const bool goes_first = longest->is_known && !source.is_known;
    if (goes_first || source.line.size() > longest->line.size()) longest = &source;
  }
  return longest;
}

void Admission::leave(int visitor) {
  for (auto& [name, source] : sources_) waiting_ -= std::erase(source.line, visitor);
}

std::optional<int> Admission::take(Source& source, Clock::time_point now,
                                   const std::function<bool(int)>& is_ready) {
  const auto ready = std::ranges::find_if(source.line, is_ready);
  if (ready == source.line.end()) return std::nullopt;
  source.turns.refill(now, options_.turns_per_second, options_.turns);
  if (source.turns.turns < 1 || (!source.is_known && shared_.turns < 1)) return std::nullopt;
  source.turns.turns -= 1;
  if (!source.is_known) shared_.turns -= 1;
  const int visitor = *ready;
  source.line.erase(ready);
  --waiting_;
  return visitor;
}

std::optional<int> Admission::next(Clock::time_point now, const std::function<bool(int)>& is_ready) {
  shared_.refill(now, options_.shared_per_second, options_.shared_turns);
  auto source = sources_.upper_bound(last_);
  for (std::size_t i = 0; i < sources_.size(); ++i, ++source) {
    if (source == sources_.end()) source = sources_.begin();
    if (const std::optional<int> visitor = take(source->second, now, is_ready)) {
      last_ = source->first;
      return visitor;
    }
  }
  forget_idle(now);
  return std::nullopt;
}

// Bounds the map: unknown sources may come from any number of addresses.
void Admission::forget_idle(Clock::time_point now) {
  for (auto& [name, source] : sources_) source.turns.refill(now, options_.turns_per_second, options_.turns);
  std::erase_if(sources_, [&](const auto& one) {
    const Source& source = one.second;
    return !source.is_known && source.line.empty() && source.turns.turns >= options_.turns;
  });
}

void Admission::prove(const std::string& source) {
  Source& own = at(source);
  if (!own.is_known) shared_.give_back(options_.shared_turns);
  own.turns.give_back(options_.turns);
  own.is_known = true;
}

void Admission::offend(const std::string& source) {
  double& turns = at(source).turns.turns;
  turns = std::max(turns - options_.offence_turns, -options_.offence_turns);
}

}  // namespace distbelief::comm
